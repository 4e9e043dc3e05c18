"""Records of a partition as a client reads them: from an offset or a time on, as many as fit on a page."""

from __future__ import annotations

import time

from confluent_kafka import Message as KafkaMessage
from confluent_kafka import TopicPartition

from console.anatomy.record import MOST_HEADERS
from console.cluster.client import Client
from console.cluster.values import Message
from pybroker.cli.client.headers import headers_of

#: For a page; then it shows what has come.
_TIMEOUT_S = 5.0
_TURN_S = 0.1
#: Of a page's records: the one that makes it as many is its last. And what librdkafka may fetch ahead.
_MOST_BYTES = 8 << 20
_AT_THE_END = -191  # KafkaError._PARTITION_EOF


def offset_at(client: Client, topic: str, partition: int, timestamp_ms: int) -> int:
    """The offset of the first record that is no older; that after the last where none is."""
    with client.session() as session:
        return session.since([(topic, partition)], timestamp_ms)[topic, partition]


def read_messages(client: Client, topic: str, partition: int, offset: int, most: int) -> list[Message]:
    """At most `most` records from `offset` on, fewer of large ones, uncommitted ones too; no markers of transactions.

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
            size_bytes = 0
            deadline = time.monotonic() + _TIMEOUT_S
            while len(found) < most and size_bytes < _MOST_BYTES and time.monotonic() < deadline:
                each = consumer.poll(_TURN_S)
                error = each.error() if each is not None else None
                if each is not None and error is None:
                    found.append(_message(each))
                    size_bytes += found[-1].size_bytes
                elif error is not None and error.code() == _AT_THE_END:
                    break
                session.check()
            return found
        finally:
            consumer.close()


def _message(each: KafkaMessage) -> Message:
    _, timestamp_ms = each.timestamp()
    partition, offset = each.partition(), each.offset()
    assert partition is not None
    assert offset is not None
    headers = headers_of(each)
    shown = tuple(headers[:MOST_HEADERS])
    return Message(
        partition, offset, timestamp_ms, _bytes(each.key()), _bytes(each.value()), shown, len(headers) - len(shown)
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
