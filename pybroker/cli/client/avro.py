"""Avro's binary encoding (specification 1.11), read with the schema that it was written with; values as JSON has them.

Bytes and fixed are text of their octets (ISO 8859-1), as in Avro's JSON encoding; of a union its value stands alone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Read = Callable[["_Cursor"], Any]

#: Deeper values, or more elements of arrays and maps in one value, are an attack rather than data.
_DEEPEST = 200
_MOST_ELEMENTS = 1 << 20
_VARINT_BYTES = 10


class AvroError(Exception):
    """A schema that is none, or bytes that are not of it."""


class AvroSchema:
    """A schema, ready to read with. `names` has types of schemas that it refers to, and gets its own."""

    def __init__(self, schema: Any, names: dict[str, Read] | None = None) -> None:
        self.names = {} if names is None else names
        self._read = self._reader(schema, "")

    def decode(self, data: bytes) -> Any:
        """The value. Raises AvroError."""
        cursor = _Cursor(data)
        value = self._read(cursor)
        if cursor.position != len(data):
            raise AvroError(f"{len(data) - cursor.position} bytes are left over")
        return value

    def _reader(self, schema: Any, namespace: str) -> Read:
        if isinstance(schema, list):
            return _union([self._reader(each, namespace) for each in schema])
        if isinstance(schema, str):
            return self._named(schema, namespace)
        if not isinstance(schema, Mapping) or "type" not in schema:
            raise AvroError(f"{schema!r} is no type")
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(kind, schema, namespace)
        if kind == "array":
            return _blocks(self._reader(schema.get("items"), namespace), None)
        if kind == "map":
            return _blocks(self._reader(schema.get("values"), namespace), _text)
        return self._reader(kind, namespace)  # a type with a logical one, or another's name

    def _named(self, name: str, namespace: str) -> Read:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full not in self.names and name not in self.names:
            raise AvroError(f"there is no type {name}")
        known = full if full in self.names else name
        return lambda cursor: self.names[known](cursor)  # it may be inside of itself

    def _definition(self, kind: str, schema: Mapping[str, Any], namespace: str) -> Read:
        name = str(schema.get("name", ""))
        inner = name.rpartition(".")[0] if "." in name else str(schema.get("namespace", namespace))
        full = name if "." in name or not inner else f"{inner}.{name}"
        if kind == "enum":
            self.names[full] = _enum(schema.get("symbols", []))
        elif kind == "fixed":
            size = schema.get("size")
            if not isinstance(size, int) or size < 0:
                raise AvroError(f"{full}: {size!r} is no size")
            self.names[full] = lambda cursor: cursor.take(size).decode("latin-1")
        else:
            fields: list[tuple[str, Read]] = []
            self.names[full] = _record(fields)
            for field in schema.get("fields", []):
                if not isinstance(field, Mapping) or "name" not in field:
                    raise AvroError(f"{full}: {field!r} is no field")
                fields.append((str(field["name"]), self._reader(field.get("type"), inner)))
        return self.names[full]


class _Cursor:
    """Where in the bytes a reader is, and what it may still read."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0
        self.depth = 0
        self.elements = 0

    def take(self, size: int) -> bytes:
        if size < 0 or size > len(self._data) - self.position:
            raise AvroError(f"{size} bytes are due at {self.position} of {len(self._data)}")
        self.position += size
        return self._data[self.position - size : self.position]

    def long(self) -> int:
        """A zigzag varint."""
        value = 0
        for number in range(_VARINT_BYTES):
            octet = self.take(1)[0]
            value |= (octet & 0x7F) << (7 * number)
            if octet < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise AvroError(f"a number before {self.position} does not end")


def _octets(cursor: _Cursor) -> bytes:
    return cursor.take(cursor.long())


def _text(cursor: _Cursor) -> str:
    return _octets(cursor).decode(errors="replace")


def _union(branches: Sequence[Read]) -> Read:
    def read(cursor: _Cursor) -> Any:
        index = cursor.long()
        if not 0 <= index < len(branches):
            raise AvroError(f"there is no branch {index} of a union")
        return branches[index](cursor)

    return read


def _enum(symbols: Sequence[str]) -> Read:
    def read(cursor: _Cursor) -> str:
        index = cursor.long()
        if not 0 <= index < len(symbols):
            raise AvroError(f"there is no symbol {index}")
        return symbols[index]

    return read


def _record(fields: Sequence[tuple[str, Read]]) -> Read:
    def read(cursor: _Cursor) -> dict[str, Any]:
        cursor.depth += 1
        if cursor.depth > _DEEPEST:
            raise AvroError(f"records are more than {_DEEPEST} deep")
        value = {name: each(cursor) for name, each in fields}
        cursor.depth -= 1
        return value

    return read


def _blocks(element: Read, key: Callable[[_Cursor], str] | None) -> Read:
    """An array, or a map where `key` is given: blocks, each with its count, up to one of none."""

    def read(cursor: _Cursor) -> Any:
        pairs = []
        while count := cursor.long():
            if count < 0:
                count = -count
                cursor.long()  # its size, for those who skip it
            cursor.elements += count
            if cursor.elements > _MOST_ELEMENTS:
                raise AvroError(f"there are more than {_MOST_ELEMENTS} elements")
            pairs += [(key(cursor) if key is not None else "", element(cursor)) for _ in range(count)]
        return dict(pairs) if key is not None else [value for _, value in pairs]

    return read


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
    "bytes": lambda cursor: _octets(cursor).decode("latin-1"),
    "string": _text,
}
