"""Records in the format of Kafka's console consumer."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.cli.client.console_format import ConsoleFormat
from pybroker.cli.client.errors import CommandError, UsageError

ALL = [(f"print.{name}", "true") for name in ("headers", "offset", "timestamp", "partition", "delivery", "key")]
LONG = "org.apache.kafka.common.serialization.LongDeserializer"


class Record:
    """A record of librdkafka, with the methods that formats use."""

    def __init__(
        self,
        key: bytes | None = b"k",
        value: bytes | str | None = b"v",
        headers: list[tuple[str, bytes | None]] | None = None,
        timestamp: tuple[int, int] = (1, 7),
    ) -> None:
        self.key, self.value, self.headers = (lambda: key), (lambda: value), (lambda: headers)
        self.timestamp = lambda: timestamp

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 9


def printed(properties: list[tuple[str, str]], record: Record | None = None) -> bytes:
    stand_in: Any = record or Record()
    return ConsoleFormat(properties)(stand_in)


@pytest.mark.parametrize(
    ("properties", "record", "expected"),
    [
        ([], Record(), b"v\n"),
        ([], Record(value=None), b"null\n"),
        ([("null.literal", "")], Record(value=None), b"\n"),
        ([("print.key", "true")], Record(key=None), b"null\tv\n"),
        ([("print.key", "true"), ("key.separator", ":"), ("line.separator", ";")], Record(), b"k:v;"),
        ([("print.key", "TRUE "), ("print.value", "false")], Record(), b"k\n"),
        ([("print.value", "false")], Record(), b""),
        (
            ALL,
            Record(headers=[("a", b"1"), ("b", None)]),
            b"CreateTime:7\tPartition:3\tOffset:9\tDelivery:NONE\ta:1,b:null\tk\tv\n",
        ),
        ([*ALL[:1], ("headers.separator", "; ")], Record(headers=[("a", b"1"), ("a", b"2")]), b"a:1; a:2\tv\n"),
        (ALL[:1], Record(), b"NO_HEADERS\tv\n"),
        ([("print.timestamp", "true")], Record(timestamp=(2, 8)), b"LogAppendTime:8\tv\n"),
        ([("print.timestamp", "true")], Record(timestamp=(0, -1)), b"NO_TIMESTAMP\tv\n"),
        ([], Record(value=b"\xff\0"), b"\xff\0\n"),
        ([("value.deserializer", LONG)], Record(value=b"\0\0\0\0\0\0\1\1"), b"257\n"),
        ([("value.deserializer", LONG)], Record(value='{"a": 1}'), b'{"a": 1}\n'),
        ([("value.deserializer", "StringDeserializer")], Record(value=b"\xff"), "\ufffd\n".encode()),
    ],
)
def test_fields_are_printed_in_the_order_of_kafka(
    properties: list[tuple[str, str]], record: Record, expected: bytes
) -> None:
    """The order of the properties does not matter."""
    assert printed(properties, record) == expected


def test_value_of_another_type_is_an_error() -> None:
    """The message has the record's partition and offset."""
    with pytest.raises(CommandError, match=r"^t-3 offset 9: the deserializer cannot read the key or value"):
        printed([("value.deserializer", LONG)])


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("print.keys", "true", "unknown property print.keys; known: print.timestamp, "),
        ("key.deserializer", "a.B", "Java class"),
    ],
)
def test_unknown_properties_are_rejected(key: str, value: str, problem: str) -> None:
    """A misspelt property must not be ignored."""
    with pytest.raises(UsageError, match=problem):
        ConsoleFormat([(key, value)])
