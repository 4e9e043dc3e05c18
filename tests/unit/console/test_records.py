"""Records of a partition, as many as fit on a page; the consumer is made up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from console.cluster.client import Client
from console.cluster.records import read_messages

MIB = 1 << 20
AT_THE_END = -191


class Record:
    """A record as librdkafka gives it, or an error in its place."""

    def __init__(self, value: bytes = b"", headers: int = 0, error: int | None = None) -> None:
        self._value = value
        self._headers = [("name", b"told")] * headers or None
        self._error = None if error is None else SimpleNamespace(code=lambda: error)

    def error(self) -> SimpleNamespace | None:
        return self._error

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

    def check(self) -> None:
        assert not self.is_closed

    def close(self) -> None:
        self.is_closed = True


def values(broker: Broker, most: int = 500) -> list[bytes | None]:
    """Of a page."""
    found = read_messages(cast(Client, broker), "orders", 0, 7, most).messages
    assert broker.is_closed
    return [each.value for each in found]


def test_page_ends_with_the_partition_or_with_its_count() -> None:
    """What stands in a record's place and is not the end is passed over."""
    records = Record(b"a"), Record(error=-1), Record(b"b"), Record(error=AT_THE_END), Record(b"c")
    assert values(Broker(*records)) == [b"a", b"b"]
    assert values(Broker(*records), most=1) == [b"a"]


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
