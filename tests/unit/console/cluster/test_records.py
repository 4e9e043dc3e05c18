"""Records of a partition that fit on a page; the consumer is a fake."""

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
    """A record as librdkafka returns it, or an error."""

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
    """A client, its connection and its consumer: returns these records, and nothing at every other poll."""

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
    """Return the values of a page."""
    found = read_messages(cast(Client, broker), "orders", 0, 7, limit).messages
    assert broker.is_closed
    return [each.value for each in found]


def test_page_ends_at_the_partitions_end_or_its_count() -> None:
    """No later record is read. The error that the group is not authorized is ignored, as no group is used."""
    of_the_group = Record(error=KafkaError.GROUP_AUTHORIZATION_FAILED, topic=None)
    records = Record(b"a"), of_the_group, Record(b"b"), Record(error=AT_THE_END), Record(b"c")
    assert values(Broker(*records)) == [b"a", b"b"]
    assert values(Broker(*records), limit=1) == [b"a"]


def test_errors_of_the_broker_are_shown() -> None:
    """Instead of an empty page; also while following a partition."""
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
    """Records that are not on it are not read."""
    broker = Broker(*[large] * 500)
    assert len(values(broker)) == 8
    assert len(broker.left) == 2 * (500 - 8)


def test_surplus_headers_are_counted() -> None:
    """They are not kept."""
    broker = Broker(Record(headers=1000), Record(error=AT_THE_END))
    (record,) = read_messages(cast(Client, broker), "orders", 0, 7, 500).messages
    assert len(record.headers) == 200
    assert record.more_headers == 800


def test_records_are_filtered_by_a_word() -> None:
    """In value, header name or header value. The page has the offset to continue from."""
    records = Record(b"An Order"), Record(b"other"), Record(b"", headers=1), Record(b"order 2")
    found = read_messages(cast(Client, Broker(*records)), "orders", 0, 7, 2, "ORDER")
    assert [each.value for each in found.messages] == [b"An Order", b"order 2"]
    assert (found.scanned, found.following) == (4, 8)
    with_end = Broker(*records, Record(error=AT_THE_END))
    found = read_messages(cast(Client, with_end), "orders", 0, 7, 500, "told")
    assert ([each.value for each in found.messages], found.following) == ([b""], None)
