"""Read records of a partition as a client: a page of them, from an offset or a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage

from console.anatomy.record import MOST_HEADERS
from console.cluster.client import Client
from console.cluster.values import Message
from pybroker.cli.client.headers import headers_of
from pybroker.cli.client.session import Session, failed

#: The time limit for a page; then it shows the records that have arrived.
_TIMEOUT_S = 5.0
_TURN_S = 0.1
#: A page ends with the record that reaches this size. It is also the limit of librdkafka's prefetching.
_MOST_BYTES = 8 << 20
#: Records that a search for a word reads at most.
_MOST_SCANNED = 100_000
_AT_THE_END = -191  # KafkaError._PARTITION_EOF


@dataclass(frozen=True, slots=True)
class RecordPage:
    """A page of records. `following` is the offset of the next page, None at the end. `scanned`: records read."""

    messages: list[Message]
    following: int | None
    scanned: int


def offset_at(client: Client, topic: str, partition: int, timestamp_ms: int) -> int:
    """Return the offset of the first record at or after `timestamp_ms`; the end offset if there is none."""
    with client.session() as session:
        return session.since([(topic, partition)], timestamp_ms)[topic, partition]


def read_messages(client: Client, topic: str, partition: int, offset: int, limit: int, word: str = "") -> RecordPage:
    """Return at most `limit` records from `offset` on, fewer if large: uncommitted ones too, no control records.

    Args:
        word: return only records with this word in the key, the value or a header; ASCII letters in either case.
    """
    wanted = word.encode().lower()
    with client.session() as session, _consumer(session, topic, partition, offset) as consumer:
        found: list[Message] = []
        size_bytes, scanned, following = 0, 0, offset
        deadline = time.monotonic() + _TIMEOUT_S
        while (
            len(found) < limit and size_bytes < _MOST_BYTES and scanned < _MOST_SCANNED and time.monotonic() < deadline
        ):
            each = consumer.poll(_TURN_S)
            if each is not None and _is_end(each):
                return RecordPage(found, None, scanned)
            if each is not None and _is_record(each, topic):
                scanned += 1
                message = _message(each)
                following = message.offset + 1
                if not wanted or message.has(wanted):
                    found.append(message)
                    size_bytes += message.size_bytes
            session.check()
        return RecordPage(found, following, scanned)


class Tail:
    """A stream of a partition's records from `offset` on. Not thread-safe."""

    def __init__(self, client: Client, topic: str, partition: int, offset: int) -> None:
        self.offset = offset
        self._client = client
        self._topic = topic
        with client.session() as session:
            self._session = session
            self._consumer = session.consumer(_properties(wait_ms=500))
            self._consumer.assign([TopicPartition(topic, partition, offset)])

    def some(self, limit: int, wait_s: float) -> list[Message]:
        """Return at most `limit` records; none if none arrive within `wait_s` seconds. Raises BrokerUnavailable."""
        with self._client.session():
            self._session.check()
            first = self._consumer.poll(wait_s)
            if first is None:
                return []
            found = [first, *self._consumer.consume(limit - 1, 0)]  # and records that arrived with it
            return [_message(each) for each in found if _is_record(each, self._topic)]

    def close(self) -> None:
        self._consumer.close()


@contextmanager
def _consumer(session: Session, topic: str, partition: int, offset: int) -> Iterator[Consumer]:
    consumer = session.consumer(_properties(wait_ms=10))
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        yield consumer
    finally:
        consumer.close()


def _properties(*, wait_ms: int) -> dict[str, object]:
    """Return the properties of a consumer without group membership and commits."""
    return {
        "group.id": "pybroker-console",  # librdkafka wants a name; nobody joins or commits
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_uncommitted",
        "fetch.wait.max.ms": wait_ms,
        "queued.max.messages.kbytes": _MOST_BYTES >> 10,
    }


def _is_end(each: KafkaMessage) -> bool:
    error = each.error()
    return error is not None and error.code() == _AT_THE_END


def _is_record(each: KafkaMessage, topic: str) -> bool:
    """Return whether a message is a record. Others are the end of the partition, or errors about the group, which the
    consumer does not join. Raises CommandError if the broker rejects the partition.
    """
    error = each.error()
    if error is None:
        return True
    if not _is_end(each) and each.topic() is not None:
        raise failed(KafkaException(error), topic)
    return False


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
