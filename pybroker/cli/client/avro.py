"""Decode Avro's binary encoding (specification 1.11) with the writer's schema, into values for JSON.

A logical type becomes its underlying type, a union its value alone.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Read = Callable[["_Cursor"], Any]

#: The deepest nesting of a schema, and of a value: a deeper one is an attack, not data.
_DEEPEST_SCHEMA = 64
_DEEPEST = 200
#: The most values nested in one value. Without it, `null` elements, which have no bytes, could be endless.
_MOST_VALUES = 1 << 20
_VARINT_BYTES = 10


class AvroError(Exception):
    """A schema is invalid, or bytes do not match it. The message is one line."""


def parse_schema(text: str, names: dict[str, Read] | None = None) -> AvroSchema:
    """Parse a schema in JSON, or the name of a type. Raises AvroError."""
    try:
        schema = json.loads(text) if text.strip()[:1] in ("{", "[", '"') else text.strip()
    except (ValueError, RecursionError):
        raise AvroError("the schema is not JSON") from None
    return AvroSchema(schema, names)


class AvroSchema:
    """A parsed schema. `names` has the named types that the schema may refer to; the schema's own are added."""

    def __init__(self, schema: Any, names: dict[str, Read] | None = None) -> None:
        self.names = {} if names is None else names
        self._read = self._reader(schema, "", 0)

    def decode(
        self,
        data: bytes,
        *,
        limit: int = _MOST_VALUES,
        octets: Callable[[bytes], str] = lambda data: data.decode("latin-1"),
    ) -> Any:
        """Decode a value. Raises AvroError unless it uses all bytes.

        Args:
            limit: how many values, of all types, it may contain.
            octets: how to represent bytes and fixed. Avro's JSON encoding decodes them as ISO 8859-1.
        """
        cursor = _Cursor(data, limit, octets)
        value = self._read(cursor)
        if cursor.position != len(data):
            raise AvroError(f"{len(data) - cursor.position} bytes are left over")
        return value

    def _reader(self, schema: Any, namespace: str, depth: int) -> Read:
        if depth > _DEEPEST_SCHEMA:
            raise AvroError("the schema is too deep")
        if isinstance(schema, list):
            return _union([self._reader(each, namespace, depth + 1) for each in schema])
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if not isinstance(schema, Mapping) or "type" not in schema:
            raise AvroError(f"{_shown(schema)} is not a type")
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(kind, schema, namespace, depth)
        if kind == "array":
            return _array(self._reader(schema.get("items"), namespace, depth + 1))
        if kind == "map":
            return _map(self._reader(schema.get("values"), namespace, depth + 1))
        return self._reader(kind, namespace, depth + 1)  # a logical type around another type, or a reference by name

    def _named(self, name: str, namespace: str) -> Read:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self.names and name not in self.names:
            raise AvroError(f"unknown type {_shown(name)}")
        known = full if full in self.names else name
        return lambda cursor: self.names[known](cursor)  # a type may contain itself

    def _definition(self, kind: str, schema: Mapping[str, Any], namespace: str, depth: int) -> Read:
        name = schema.get("name")
        if not isinstance(name, str) or not name:
            raise AvroError(f"there is no name in {_shown(schema)}")
        inner = name.rpartition(".")[0] if "." in name else str(schema.get("namespace") or namespace)
        full = name if "." in name or not inner else f"{inner}.{name}"
        if kind == "enum":
            symbols = schema.get("symbols")
            if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols):
                raise AvroError(f"{full}: symbols must be a list of strings, not {_shown(symbols)}")
            self.names[full] = _enum(symbols)
        elif kind == "fixed":
            size = schema.get("size")
            if not isinstance(size, int) or size < 0:
                raise AvroError(f"{full}: size must be a number of at least 0, not {_shown(size)}")
            self.names[full] = lambda cursor: cursor.octets(cursor.take(size))
        else:
            found = schema.get("fields")
            if not isinstance(found, list):
                raise AvroError(f"{full}: fields must be a list, not {_shown(found)}")
            fields: list[tuple[str, Read]] = []
            self.names[full] = _record(fields)
            for field in found:
                if not isinstance(field, Mapping) or not isinstance(field.get("name"), str) or "type" not in field:
                    raise AvroError(f"{full}: {_shown(field)} is not a field")
                fields.append((field["name"], self._reader(field["type"], inner, depth + 1)))
        return self.names[full]


def _shown(schema: Any) -> str:
    return repr(schema)[:80]


class _Cursor:
    """A position in the bytes, and how many values may still be read."""

    def __init__(self, data: bytes, limit: int, octets: Callable[[bytes], str]) -> None:
        self._data = data
        self._most = limit
        self._left = limit
        self._depth = 0
        self.position = 0
        self.octets = octets

    def enter(self, count: int) -> None:
        """Begin to read this many nested values; call `leave` after them."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise AvroError(f"it is more than {_DEEPEST} values deep")
        self.count(count)

    def count(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise AvroError(f"it has more than {self._most} values")

    def leave(self) -> None:
        self._depth -= 1

    def take(self, size: int) -> bytes:
        if size < 0 or size > len(self._data) - self.position:
            raise AvroError(f"truncated: expected {size} bytes at {self.position}, the data has {len(self._data)}")
        self.position += size
        return self._data[self.position - size : self.position]

    def long(self) -> int:
        """Read a zigzag varint."""
        value = 0
        for number in range(_VARINT_BYTES):
            octet = self.take(1)[0]
            value |= (octet & 0x7F) << (7 * number)
            if octet < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise AvroError(f"the number before {self.position} has more than {_VARINT_BYTES} bytes")


def _text(cursor: _Cursor) -> str:
    try:
        return cursor.take(cursor.long()).decode()
    except UnicodeDecodeError:
        raise AvroError(f"the string before {cursor.position} is not UTF-8") from None


def _union(branches: Sequence[Read]) -> Read:
    def read(cursor: _Cursor) -> Any:
        index = cursor.long()
        if not 0 <= index < len(branches):
            raise AvroError(f"invalid union branch {index}")
        cursor.enter(1)
        value = branches[index](cursor)
        cursor.leave()
        return value

    return read


def _enum(symbols: Sequence[str]) -> Read:
    def read(cursor: _Cursor) -> str:
        index = cursor.long()
        if not 0 <= index < len(symbols):
            raise AvroError(f"invalid enum symbol {index}")
        return symbols[index]

    return read


def _record(fields: Sequence[tuple[str, Read]]) -> Read:
    def read(cursor: _Cursor) -> dict[str, Any]:
        cursor.enter(len(fields))
        value = {name: each(cursor) for name, each in fields}
        cursor.leave()
        return value

    return read


def _array(element: Read) -> Read:
    def read(cursor: _Cursor) -> list[Any]:
        cursor.enter(0)
        value = [element(cursor) for _ in _blocks(cursor)]
        cursor.leave()
        return value

    return read


def _map(element: Read) -> Read:
    def read(cursor: _Cursor) -> dict[str, Any]:
        cursor.enter(0)
        value = {_text(cursor): element(cursor) for _ in _blocks(cursor)}
        cursor.leave()
        return value

    return read


def _blocks(cursor: _Cursor) -> Iterator[int]:
    """Yield once for each element: they come in blocks with a count, until an empty block."""
    while count := cursor.long():
        if count < 0:
            count = -count
            cursor.long()  # the block's size in bytes, for skipping it
        cursor.count(count)
        yield from range(count)


def _number(code: str) -> Read:
    packed = struct.Struct(code)
    return lambda cursor: packed.unpack(cursor.take(packed.size))[0]


_PRIMITIVES: Mapping[str, Read] = {
    "null": lambda cursor: None,
    "boolean": lambda cursor: cursor.take(1) != b"\0",
    "int": lambda cursor: cursor.long(),
    "long": lambda cursor: cursor.long(),
    "float": _number("<f"),
    "double": _number("<d"),
    "bytes": lambda cursor: cursor.octets(cursor.take(cursor.long())),
    "string": _text,
}
