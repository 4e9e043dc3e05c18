"""A member of a consumer group as a process of its own, by one of three libraries; what it does it tells in JSON lines.

    python -m tests.conformance.group_member kafka-python|aiokafka|confluent BOOTSTRAP TOPIC GROUP

{"read": ["value", ...], "batch": N} comes before the batch is committed, {"committed": N} after. SIGTERM lets it leave.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AIOTopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError as AIOKafkaError
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor as PythonRangeAssignor
from kafka.errors import KafkaError as PythonKafkaError

SESSION_TIMEOUT_MS = 10_000  # above what a busy machine keeps a member or its broker waiting
HEARTBEAT_MS = 300


def tell(**event: Any) -> None:
    print(json.dumps(event), flush=True)


class Leave(Exception):
    """SIGTERM has come."""


def leave(*_: object) -> None:
    raise Leave


def kafka_python(bootstrap: str, topic: str, group: str) -> None:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[PythonRangeAssignor],
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
    )
    try:
        for batch in itertools.count():
            if records := [r for part in consumer.poll(timeout_ms=100, max_records=20).values() for r in part]:
                tell(read=[record.value.decode() for record in records], batch=batch)
                try:
                    consumer.commit()
                except PythonKafkaError as error:
                    tell(error=str(error))
                else:
                    tell(committed=batch)
    except Leave:
        consumer.close(autocommit=False)


async def aio(bootstrap: str, topic: str, group: str) -> None:
    left = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, left.set)
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
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
                tell(read=[record.value.decode() for record in records], batch=batch)
                ends = {AIOTopicPartition(r.topic, r.partition): r.offset + 1 for r in records}
                try:
                    await consumer.commit(ends)
                except AIOKafkaError as error:
                    tell(error=str(error))
                else:
                    tell(committed=batch)


def confluent(bootstrap: str, topic: str, group: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": "range",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
        }
    )
    consumer.subscribe([topic])
    try:
        for batch in itertools.count():
            messages = [message for message in consumer.consume(20, 0.1) if message.error() is None]
            if messages:
                tell(read=[message.value().decode() for message in messages], batch=batch)
                ends = {m.partition(): m.offset() + 1 for m in messages}
                try:
                    committed = consumer.commit(
                        offsets=[TopicPartition(topic, partition, end) for partition, end in ends.items()],
                        asynchronous=False,
                    )
                    if any(partition.error for partition in committed):
                        raise KafkaException(committed[0].error)
                except KafkaException as error:
                    tell(error=str(error))
                else:
                    tell(committed=batch)
    except Leave:
        consumer.close()


if __name__ == "__main__":
    library, *arguments = sys.argv[1:]
    if library == "aiokafka":
        asyncio.run(aio(*arguments))
    else:
        signal.signal(signal.SIGTERM, leave)
        {"kafka-python": kafka_python, "confluent": confluent}[library](*arguments)
