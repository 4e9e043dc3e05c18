"""Avro's binary encoding, decoded with a schema (Apache Avro 1.11 specification): enough of it to look at records.

A value is the datum alone, or has the head that schema registries' clients write before it: a zero byte and four bytes
of the schema's id. Names of types, logical types among them, are as in the schema; those are shown as what they are
made of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")
_HEAD_BYTES = 5
_DEEPEST = 64
#: Items of arrays and maps, of all together: some take no bytes at all.
_MOST_ITEMS = 100_000
_LONGEST_SCHEMA = 30_000
_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED = frozenset({"record", "error", "enum", "fixed"})


class AvroError(ValueError):
    """The bytes are none of the schema's, or that is none; `str()` says why."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema, with its named types by full name."""

    root: Any
    names: Mapping[str, Any]


def parse_schema(text: str) -> Schema:
    """A schema in JSON, or the name of a primitive type. AvroError."""
    if len(text) > _LONGEST_SCHEMA:
        raise AvroError(f"a schema has at most {_LONGEST_SCHEMA} characters here")
    try:
        root = json.loads(text) if text.strip()[:1] in ("{", "[", '"') else text.strip()
    except (ValueError, RecursionError):
        raise AvroError("the schema is no JSON") from None
    names: dict[str, Any] = {}
    _collect(root, "", names, 0)
    return Schema(root, names)


def decode(schema: Schema, data: bytes) -> str:
    """The value as JSON, indented. AvroError unless all bytes are used up."""
    problem = AvroError("it is empty")
    for start in (_HEAD_BYTES, 0) if data[:1] == b"\0" and len(data) >= _HEAD_BYTES else (0,):
        reader = _Reader(data, start, schema.names)
        try:
            value = reader.read(schema.root, "", 0)
            if reader.position != len(data):
                raise AvroError(f"{len(data) - reader.position} bytes are left over")
        except AvroError as found:
            problem = found
        else:
            return json.dumps(value, indent=2, ensure_ascii=False)
    raise problem


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _inside(schema: dict[str, Any], namespace: str) -> str:
    """The namespace of what is in a named type."""
    name = schema.get("name")
    if not isinstance(name, str) or not name:
        raise AvroError(f"a {schema.get('type')} has no name")
    if "." in name:
        return name.rpartition(".")[0]
    given = schema.get("namespace", namespace)
    return given if isinstance(given, str) else ""


def _collect(schema: Any, namespace: str, names: dict[str, Any], depth: int) -> None:
    """Find the named types, and see that all there is is a schema."""
    if depth > _DEEPEST:
        raise AvroError("the schema is too deep")
    if isinstance(schema, str):
        if schema not in _PRIMITIVES and schema not in names and _full_name(schema, namespace) not in names:
            raise AvroError(f"there is no type {schema[:80]!r}")
        return
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, namespace, names, depth + 1)
        return
    if not isinstance(schema, dict) or "type" not in schema:
        raise AvroError(f"{json.dumps(schema)[:80]} is no type")
    kind = schema["type"]
    if kind in ("array", "map"):
        _collect(schema.get("items" if kind == "array" else "values"), namespace, names, depth + 1)
    elif isinstance(kind, str) and kind in _NAMED:
        inner = _inside(schema, namespace)
        names[_full_name(schema["name"], inner)] = schema
        _check_named(schema, inner, names, depth)
    else:
        _collect(kind, namespace, names, depth + 1)


def _check_named(schema: dict[str, Any], inner: str, names: dict[str, Any], depth: int) -> None:
    kind, name = schema["type"], schema["name"]
    if kind == "enum":
        symbols = schema.get("symbols")
        if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols):
            raise AvroError(f"enum {name} has no symbols")
    elif kind == "fixed":
        size = schema.get("size")
        if not isinstance(size, int) or size < 0:
            raise AvroError(f"fixed {name} has no size")
    else:
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise AvroError(f"record {name} has no fields")
        for each in fields:
            if not isinstance(each, dict) or not isinstance(each.get("name"), str) or "type" not in each:
                raise AvroError(f"record {name} has a field without name or type")
            _collect(each["type"], inner, names, depth + 1)


@dataclass(slots=True)
class _Reader:
    """Goes through the bytes from `position` on."""

    data: bytes
    position: int
    names: Mapping[str, Any]
    items_left: int = field(default=_MOST_ITEMS)

    def read(self, schema: Any, namespace: str, depth: int) -> Any:
        """A value, as JSON has it."""
        if depth > _DEEPEST:
            raise AvroError("the value is too deep")
        if isinstance(schema, list):
            return self.read(_chosen(schema, self._long(), "branch"), namespace, depth + 1)
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return self._primitive(schema)
            schema = self.names.get(_full_name(schema, namespace)) or self.names[schema]
        kind = schema["type"]
        if kind == "array":
            return [self.read(schema["items"], namespace, depth + 1) for _ in self._blocks()]
        if kind == "map":
            pairs = ((self._text(), self.read(schema["values"], namespace, depth + 1)) for _ in self._blocks())
            return dict(pairs)
        if kind == "enum":
            return _chosen(schema["symbols"], self._long(), "symbol")
        if kind == "fixed":
            return _bytes_text(self._take(schema["size"]))
        if kind in ("record", "error"):
            inner = _inside(schema, namespace)
            return {each["name"]: self.read(each["type"], inner, depth + 1) for each in schema["fields"]}
        return self.read(kind, namespace, depth + 1)

    def _primitive(self, kind: str) -> Any:
        if kind == "null":
            return None
        if kind == "boolean":
            return self._take(1) != b"\0"
        if kind in ("int", "long"):
            return self._long()
        if kind == "float":
            return float(_FLOAT.unpack(self._take(4))[0])
        if kind == "double":
            return float(_DOUBLE.unpack(self._take(8))[0])
        if kind == "string":
            return self._text()
        return _bytes_text(self._take(self._long()))

    def _blocks(self) -> Any:
        """Once for each item of an array or a map."""
        while count := self._long():
            if count < 0:
                self._long()  # the block's size in bytes
                count = -count
            self.items_left -= count
            if self.items_left < 0:
                raise AvroError(f"there are more than {_MOST_ITEMS} items")
            yield from range(count)

    def _text(self) -> str:
        try:
            return self._take(self._long()).decode()
        except UnicodeDecodeError:
            raise AvroError("a string is no UTF-8") from None

    def _long(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise AvroError("a number has more than ten bytes")

    def _take(self, size: int) -> bytes:
        found = self.data[self.position : self.position + max(size, 0)]
        if size < 0 or len(found) < size:
            raise AvroError("the bytes end before the value does")
        self.position += size
        return found


def _chosen(choices: list[Any], number: int, what: str) -> Any:
    if not 0 <= number < len(choices):
        raise AvroError(f"there is no {what} {number}")
    return choices[number]


def _bytes_text(data: bytes) -> str:
    return f"0x{data.hex()}"
