"""A member of a consumer group as a process of its own, with one of three libraries; it prints JSON lines.

tests/support/group_members.py starts it.

    python -m tests.conformance.group_member kafka-python|aiokafka|confluent|confluent-consumer BOOTSTRAP TOPIC GROUP

The last one speaks the consumer protocol (KIP-848), the others the classic one.

It prints {"read": ["value", ...], "batch": N} before it commits the batch, {"committed": N} after. SIGTERM makes it
leave. The library's log of its group goes to the file GROUP_MEMBER_LOG.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from logging.handlers import RotatingFileHandler
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AIOTopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError as AIOKafkaError
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor as PythonRangeAssignor
from kafka.errors import KafkaError as PythonKafkaError

from tests.support.kafka_python import know_topics

SESSION_TIMEOUT_MS = 10_000  # longer than a pause of a busy machine
HEARTBEAT_MS = 300
CLIENT_ID = os.environ.get("GROUP_MEMBER_CLIENT_ID", "member")
LOG_BYTES = 1 << 20
#: loggers with details of the group, without those of each commit and heartbeat
LEVELS = {
    "kafka.coordinator": logging.DEBUG,
    "kafka.coordinator.consumer": logging.INFO,
    "kafka.coordinator.heartbeat": logging.INFO,
    "kafka.cluster": logging.DEBUG,
    "librdkafka": logging.DEBUG,
}


class Changes(logging.Filter):
    """Leaves out a repetition of the last line: a waiting loop logs the same some thousand times a second."""

    _last = ""

    def filter(self, record: logging.LogRecord) -> bool:
        before, self._last = self._last, record.getMessage()
        return self._last != before


def log_to(path: str) -> None:
    """Let the libraries log to a file, of which the last MiB or two are kept."""
    handler = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=1)
    handler.addFilter(Changes())
    logging.basicConfig(
        handlers=[handler], level=logging.INFO, format="%(asctime)s %(threadName)s %(name)s %(levelname)s %(message)s"
    )
    for name, level in LEVELS.items():
        logging.getLogger(name).setLevel(level)


def report(**event: Any) -> None:
    print(json.dumps(event), flush=True)


class Leaving:
    """Whether SIGTERM has arrived. Not an exception: one within a library's callback would be lost."""

    def __init__(self) -> None:
        self._told = False
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, *_: object) -> None:
        self._told = True

    def batches(self) -> Iterator[int]:
        """Yield numbers of batches until SIGTERM."""
        for number in itertools.count():
            if self._told:
                return
            yield number


def kafka_python(bootstrap: str, topic: str, group: str) -> None:
    leaving = Leaving()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id=CLIENT_ID,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[PythonRangeAssignor],
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    know_topics(consumer, topic)
    for batch in leaving.batches():
        if records := [r for part in consumer.poll(timeout_ms=1000, max_records=20).values() for r in part]:
            report(read=[record.value.decode() for record in records], batch=batch)
            try:
                consumer.commit()
            except PythonKafkaError as error:
                report(error=str(error))
            else:
                report(committed=batch)
    consumer.close(autocommit=False)


async def aio(bootstrap: str, topic: str, group: str) -> None:
    left = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, left.set)
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        client_id=CLIENT_ID,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[RangePartitionAssignor],
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    async with consumer:
        for batch in itertools.count():
            if left.is_set():
                return
            parts = await consumer.getmany(timeout_ms=100, max_records=20)
            if records := [record for part in parts.values() for record in part]:
                report(read=[record.value.decode() for record in records], batch=batch)
                ends = {AIOTopicPartition(r.topic, r.partition): r.offset + 1 for r in records}
                try:
                    await consumer.commit(ends)
                except AIOKafkaError as error:
                    report(error=str(error))
                else:
                    report(committed=batch)


CLASSIC = {
    "partition.assignment.strategy": "range",
    "session.timeout.ms": SESSION_TIMEOUT_MS,
    "heartbeat.interval.ms": HEARTBEAT_MS,
}


def confluent_consumer(bootstrap: str, topic: str, group: str) -> None:
    confluent(bootstrap, topic, group, {"group.protocol": "consumer"})


def confluent(bootstrap: str, topic: str, group: str, protocol: Mapping[str, str | int] = CLASSIC) -> None:
    leaving = Leaving()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": CLIENT_ID,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "debug": "cgrp",
            **protocol,
        },
        logger=logging.getLogger("librdkafka"),
    )
    consumer.subscribe([topic])
    for batch in leaving.batches():
        messages = [message for message in consumer.consume(20, 0.1) if message.error() is None]
        if messages:
            report(read=[message.value().decode() for message in messages], batch=batch)
            ends = {m.partition(): m.offset() + 1 for m in messages}
            try:
                committed = consumer.commit(
                    offsets=[TopicPartition(topic, partition, end) for partition, end in ends.items()],
                    asynchronous=False,
                )
                if any(partition.error for partition in committed):
                    raise KafkaException(committed[0].error)
            except KafkaException as error:
                report(error=str(error))
            else:
                report(committed=batch)
    consumer.close()


if __name__ == "__main__":
    library, *arguments = sys.argv[1:]
    if "GROUP_MEMBER_LOG" in os.environ:
        log_to(os.environ["GROUP_MEMBER_LOG"])
    if library == "aiokafka":
        asyncio.run(aio(*arguments))
    else:
        run = {"kafka-python": kafka_python, "confluent": confluent, "confluent-consumer": confluent_consumer}[library]
        run(*arguments)
