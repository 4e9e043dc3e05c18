"""Print records as Apache Kafka's console consumer does: `--formatter-property print.key=true` and the like.

The properties are those of its DefaultMessageFormatter, and the output is the same, byte for byte.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from pybroker.cli.client.errors import CommandError, UsageError
from pybroker.cli.client.headers import headers_of

if TYPE_CHECKING:
    from confluent_kafka import Message

    Deserialize = Callable[[bytes], object]

#: An unknown property is an error, as it may be misspelt; Kafka's tool ignores it.
_SWITCHES = ("timestamp", "partition", "offset", "delivery", "headers", "key", "value")
_TEXTS = {"key.separator": "\t", "line.separator": "\n", "headers.separator": ",", "null.literal": "null"}
_DESERIALIZERS = ("key.deserializer", "value.deserializer", "headers.deserializer")
_TIMESTAMPS = {1: b"CreateTime:", 2: b"LogAppendTime:"}


def _number(form: str, octets: bytes) -> int | float:
    found: tuple[int | float] = struct.unpack(form, octets)
    return found[0]


def _string(octets: bytes) -> str:
    return octets.decode(errors="replace")


def _uuid(octets: bytes) -> uuid.UUID:
    return uuid.UUID(octets.decode())


#: By the class name without Deserializer. Floats are printed by Python: Java may print other digits.
_CLASSES: dict[str, Deserialize | None] = {
    "ByteArray": None,
    "Bytes": None,
    "String": _string,
    "Short": partial(_number, ">h"),
    "Integer": partial(_number, ">i"),
    "Long": partial(_number, ">q"),
    "Float": partial(_number, ">f"),
    "Double": partial(_number, ">d"),
    "UUID": _uuid,
}


class ConsoleFormat:
    """A formatter: a call returns the bytes to print for a record. Raises UsageError for an unknown property."""

    count = 0
    """The number of records so far."""

    def __init__(self, properties: Iterable[tuple[str, str]]) -> None:
        given = dict(properties)
        shown = {name: given.pop(f"print.{name}", str(name == "value")) for name in _SWITCHES}
        self._shown = [name for name, value in shown.items() if value.strip().lower() == "true"]
        texts = {name: given.pop(name, text).encode() for name, text in _TEXTS.items()}
        self._between, self._end, self._between_headers, self._null = texts.values()
        self._of_key, self._of_value, self._of_headers = (_deserializer(given.pop(each, "")) for each in _DESERIALIZERS)
        if given:
            known = (*(f"print.{name}" for name in _SWITCHES), *_TEXTS, *_DESERIALIZERS)
            raise UsageError(f"--formatter-property: unknown property {next(iter(given))}; known: {', '.join(known)}")

    def __call__(self, message: Message) -> bytes:
        """Return the bytes of a record. Raises CommandError for bytes that a deserializer cannot read."""
        try:
            columns = [self._column(name, message) for name in self._shown]
        except (struct.error, ValueError) as error:
            record = f"{message.topic()}-{message.partition()} offset {message.offset()}"
            raise CommandError(f"{record}: the deserializer cannot read the key or value: {error}") from None
        self.count += 1
        return self._between.join(columns) + self._end if columns else b""

    def _column(self, name: str, message: Message) -> bytes:
        if name == "timestamp":
            kind, timestamp_ms = message.timestamp()
            return _TIMESTAMPS[kind] + str(timestamp_ms).encode() if kind in _TIMESTAMPS else b"NO_TIMESTAMP"
        if name == "partition":
            return f"Partition:{message.partition()}".encode()
        if name == "offset":
            return f"Offset:{message.offset()}".encode()
        if name == "delivery":
            return b"Delivery:NONE"  # for share groups only
        if name == "headers":
            each = (name.encode() + b":" + self._text(value, self._of_headers) for name, value in headers_of(message))
            return self._between_headers.join(each) or b"NO_HEADERS"
        if name == "key":
            return self._text(message.key(), self._of_key)
        return self._text(message.value(), self._of_value)

    def _text(self, data: bytes | str | None, deserialize: Deserialize | None) -> bytes:
        if data is None:
            return self._null
        if isinstance(data, str):  # JSON by a schema
            return data.encode()
        return data if deserialize is None else str(deserialize(data)).encode()


def _deserializer(name: str) -> Deserialize | None:
    if not name:
        return None
    short = name.rpartition(".")[2].removesuffix("Deserializer")
    if short not in _CLASSES:
        raise UsageError(f"--formatter-property: {name} is a Java class; there are those of {', '.join(_CLASSES)}")
    return _CLASSES[short]
