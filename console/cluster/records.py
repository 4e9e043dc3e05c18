"""Records of a partition as a client reads them: from an offset or a time on, as many as fit on a page."""

from __future__ import annotations

import time

from confluent_kafka import Message as KafkaMessage
from confluent_kafka import TopicPartition

from console.cluster.client import Client
from console.cluster.values import Message
from pybroker.cli.client.headers import headers_of

#: For a page; then it shows what has come.
_TIMEOUT_S = 5.0
_TURN_S = 0.1
#: What librdkafka may fetch for a page, however large records are.
_MOST_BYTES = 8 << 20
_AT_THE_END = -191  # KafkaError._PARTITION_EOF


def offset_at(client: Client, topic: str, partition: int, timestamp_ms: int) -> int:
    """The offset of the first record that is no older; that after the last where none is."""
    with client.session() as session:
        return session.since([(topic, partition)], timestamp_ms)[topic, partition]


def read_messages(client: Client, topic: str, partition: int, offset: int, most: int) -> list[Message]:
    """At most `most` records from `offset` on, uncommitted ones too. Markers of transactions are no records.

    The consumer belongs to no group, and commits nothing.
    """
    with client.session() as session:
        consumer = session.consumer(
            {
                "group.id": "pybroker-console",  # librdkafka wants a name; nobody joins or commits
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_uncommitted",
                "fetch.wait.max.ms": 10,
                "queued.max.messages.kbytes": _MOST_BYTES >> 10,
            }
        )
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            found: list[Message] = []
            deadline = time.monotonic() + _TIMEOUT_S
            while len(found) < most and time.monotonic() < deadline:
                for each in consumer.consume(most - len(found), _TURN_S):
                    error = each.error()
                    if error is None:
                        found.append(_message(each))
                    elif error.code() == _AT_THE_END:
                        return found
                session.check()
            return found
        finally:
            consumer.close()


def _message(each: KafkaMessage) -> Message:
    _, timestamp_ms = each.timestamp()
    partition, offset = each.partition(), each.offset()
    assert partition is not None
    assert offset is not None
    return Message(partition, offset, timestamp_ms, _bytes(each.key()), _bytes(each.value()), tuple(headers_of(each)))


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
