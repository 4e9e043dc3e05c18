"""Measure end-to-end latency: each record is produced after a consumer has received the one before."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import KafkaException, Producer, TopicPartition

from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.session import Session, failed
from pybroker.perf.latencies import Latencies


def measure(
    session: Session, topic: str, records: int, payload: bytes, acks: str, show: Callable[[int], None]
) -> Latencies:
    """Return the latencies of `records` records, sent one after another through partition 0. Raises CommandError."""
    try:
        producer = Producer({**session.properties, "acks": acks, "linger.ms": 0})
    except KafkaException as refused:
        raise UsageError(refused.args[0].str()) from None
    consumer = session.consumer(
        {"group.id": "pybroker-perf", "enable.auto.commit": False, "fetch.wait.max.ms": 500, "fetch.min.bytes": 1}
    )
    found = Latencies()
    try:
        consumer.assign([TopicPartition(topic, 0, session.ends([(topic, 0)])[topic, 0])])
        for number in range(records):
            stamp = number.to_bytes(8, "big")
            began = time.perf_counter()
            producer.produce(topic, payload, stamp, partition=0)
            producer.poll(0)
            while True:
                message = consumer.poll(0.5)
                if message is not None:
                    error = message.error()
                    if error is not None:
                        raise failed(KafkaException(error), topic)
                    if message.key() == stamp:
                        break
                session.admin.poll(0)
                session.check()
                if time.perf_counter() - began > session.timeout_s:
                    raise CommandError(f"{topic}: record {number} did not arrive within {session.timeout_s:g} s")
            found.add((time.perf_counter() - began) * 1000)
            show(number + 1)
    finally:
        consumer.close()
        producer.flush(session.timeout_s)
    return found
