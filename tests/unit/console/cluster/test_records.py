"""Records of a partition, as many as fit on a page; the consumer is made up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError

from console.cluster.client import Client
from console.cluster.records import Tail, read_messages
from pybroker.cli.client.errors import CommandError

MIB = 1 << 20
AT_THE_END = -191
FORBIDDEN = KafkaError.TOPIC_AUTHORIZATION_FAILED


class Record:
    """A record as librdkafka gives it, or an error in its place."""

    def __init__(
        self, value: bytes = b"", headers: int = 0, error: int | None = None, topic: str | None = "orders"
    ) -> None:
        self._topic = topic
        self._value = value
        self._headers = [("name", b"told")] * headers or None
        self._error = None if error is None else KafkaError(error)

    def error(self) -> KafkaError | None:
        return self._error

    def topic(self) -> str | None:
        return self._topic

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return self._value

    def headers(self) -> list[tuple[str, bytes]] | None:
        return self._headers


class Broker:
    """A client, its connection and its consumer: gives these records, and nothing for a turn before each."""

    def __init__(self, *records: Record) -> None:
        self.left = [each for record in records for each in (None, record)]
        self.is_closed = False

    @contextmanager
    def session(self) -> Iterator[Broker]:
        yield self

    def consumer(self, _: dict[str, object]) -> Broker:
        return self

    def assign(self, places: list[Any]) -> None:
        assert [(each.topic, each.partition, each.offset) for each in places] == [("orders", 0, 7)]

    def poll(self, _: float) -> Record | None:
        return self.left.pop(0)

    def consume(self, limit: int, _: float) -> list[Record]:
        taken, self.left = self.left[:limit], self.left[limit:]
        return [each for each in taken if each is not None]

    def check(self) -> None:
        assert not self.is_closed

    def close(self) -> None:
        self.is_closed = True


def values(broker: Broker, limit: int = 500) -> list[bytes | None]:
    """Of a page."""
    found = read_messages(cast(Client, broker), "orders", 0, 7, limit).messages
    assert broker.is_closed
    return [each.value for each in found]


def test_page_ends_with_the_partition_or_with_its_count() -> None:
    """Nothing behind either is read; that one may not have the group, which nobody wants, is passed over."""
    of_the_group = Record(error=KafkaError.GROUP_AUTHORIZATION_FAILED, topic=None)
    records = Record(b"a"), of_the_group, Record(b"b"), Record(error=AT_THE_END), Record(b"c")
    assert values(Broker(*records)) == [b"a", b"b"]
    assert values(Broker(*records), limit=1) == [b"a"]


def test_what_the_broker_refuses_is_told() -> None:
    """Rather than a page of no records; of a partition that is followed, too."""
    broker = Broker(Record(b"a"), Record(error=FORBIDDEN))
    with pytest.raises(CommandError, match=r"orders: .*authorization failed") as refused:
        values(broker)
    assert refused.value.error_code == FORBIDDEN
    assert broker.is_closed
    broker.left = [None, Record(b"a"), Record(error=AT_THE_END), Record(error=FORBIDDEN)]
    broker.is_closed = False
    tail = Tail(cast(Client, broker), "orders", 0, 7)
    assert tail.some(2, 0) == []
    assert [each.value for each in tail.some(2, 0)] == [b"a"]
    with pytest.raises(CommandError, match="authorization failed"):
        tail.some(2, 0)


@pytest.mark.parametrize("large", [Record(bytes(MIB)), Record(bytes(MIB - 8 * 100), headers=100)])
def test_page_of_large_records_is_short(large: Record) -> None:
    """And none is taken from the queue that is not on it."""
    broker = Broker(*[large] * 500)
    assert len(values(broker)) == 8
    assert len(broker.left) == 2 * (500 - 8)


def test_headers_beyond_a_number_are_counted() -> None:
    """And not kept."""
    broker = Broker(Record(headers=1000), Record(error=AT_THE_END))
    (record,) = read_messages(cast(Client, broker), "orders", 0, 7, 500).messages
    assert len(record.headers) == 200
    assert record.more_headers == 800


def test_only_records_with_a_word() -> None:
    """In the value, or in a header's name or value; a page says from where to go on."""
    records = Record(b"An Order"), Record(b"other"), Record(b"", headers=1), Record(b"order 2")
    found = read_messages(cast(Client, Broker(*records)), "orders", 0, 7, 2, "ORDER")
    assert [each.value for each in found.messages] == [b"An Order", b"order 2"]
    assert (found.scanned, found.following) == (4, 8)
    with_end = Broker(*records, Record(error=AT_THE_END))
    found = read_messages(cast(Client, with_end), "orders", 0, 7, 500, "told")
    assert ([each.value for each in found.messages], found.following) == ([b""], None)
