"""A stored message as spans, one for each field of its schema (protocol/schema.py).

This interprets the schema, which protocol/decoder.py compiles: it is slow, but keeps the position of each field. Tests
compare the two for every stored message and version.
"""

from __future__ import annotations

from console.anatomy.cursor import Cursor
from console.anatomy.span import Span
from protocol.compiler import Layout, least_size
from protocol.error_codes import ProtocolError
from protocol.primitives import Primitive
from protocol.schema import Array, Field, Message, StructType
from tools.data.java_text import json_name

#: Elements of one array that get spans of their own; a topic may have ten thousand partitions.
_MOST_ELEMENTS = 200
_OLD_LENGTHS = {"string": "h", "bytes": "i", "records": "i"}
_INT16, _INT32 = Primitive("int16", "h", 2, 0), Primitive("int32", "i", 4, 0)
_INT8 = Primitive("int8", "b", 1, 0)


def message_span(message: Message, version: int, data: bytes, position: int = 0) -> Span:
    """Return the message at `position`; bytes after it are ignored. Raises ProtocolError for malformed bytes."""
    if version not in message.versions:
        raise ProtocolError(f"{message.name} has versions {message.versions}, not {version}")
    cursor = Cursor(data, position)
    _Walk(cursor, version, version in message.flexible).struct(message)
    return Span(f"{message.name} v{version}", position, cursor.position, "struct", parts=cursor.spans)


class _Walk:
    """Reads the fields of a struct with a cursor."""

    def __init__(self, cursor: Cursor, version: int, flexible: bool) -> None:
        self._cursor = cursor
        self._version = version
        self._flexible = flexible

    def struct(self, kind: StructType) -> None:
        layout = Layout(kind, self._version, self._flexible)
        for field in layout.plain:
            self._value(field, field.type, json_name(field), self._version in field.nullable)
        if self._flexible:
            self._tagged(layout)

    def _value(self, field: Field, kind: Primitive | Array | StructType, name: str, nullable: bool) -> None:
        compact = self._flexible and field.flexible
        if isinstance(kind, Array):
            self._array(field, kind.element, name, compact)
        elif isinstance(kind, StructType):
            self._nested(kind, name, nullable)
        elif kind.code:
            self._cursor.number(name, kind)
            self._cursor.set_meaning(field.about)
        else:
            size = self._length(f"{name} length", _OLD_LENGTHS[kind.name] == "h", compact)
            self._cursor.content(name, size, kind.name)

    def _length(self, name: str, short: bool, compact: bool) -> int:
        cursor = self._cursor
        if not compact:
            return cursor.number(name, _INT16 if short else _INT32)
        size = cursor.unsigned_varint(name) - 1
        cursor.set_meaning("null" if size < 0 else f"one more than {size}")
        return size

    def _array(self, field: Field, element: Primitive | StructType, name: str, compact: bool) -> None:
        count = self._length(f"{name} count", False, compact)
        cursor = self._cursor
        if count > 0 and count * least_size(element, self._version, compact) > len(cursor.data) - cursor.position:
            raise ProtocolError(f"{name} has {count} elements, but too few bytes follow")
        shown = min(count, _MOST_ELEMENTS)
        self._elements(field, element, name, range(shown))
        if count > shown:
            start, inside = cursor.position, cursor.inside()
            _Walk(inside, self._version, self._flexible)._elements(field, element, name, range(shown, count))
            cursor.add(Span(f"{name}[{shown}…]", start, inside.position, f"{count - shown} elements more"))

    def _elements(self, field: Field, element: Primitive | StructType, name: str, numbers: range) -> None:
        for number in numbers:
            if isinstance(element, StructType):
                self._nested(element, f"{name}[{number}]", False)
            else:
                self._value(field, element, f"{name}[{number}]", False)

    def _nested(self, kind: StructType, name: str, nullable: bool) -> None:
        cursor, start = self._cursor, self._cursor.position
        inside = cursor.inside()
        walk = _Walk(inside, self._version, self._flexible)
        is_null = nullable and inside.number("is present", _INT8) < 0
        if is_null:
            inside.set_meaning("null")
        else:
            walk.struct(kind)
        if inside.position > start:
            cursor.add(Span(name, start, inside.position, kind.name, parts=inside.spans))

    def _tagged(self, layout: Layout) -> None:
        cursor = self._cursor
        count = cursor.unsigned_varint("tagged fields")
        cursor.set_meaning("none" if not count else "fields that older readers skip")
        known = {field.tag: field for field in layout.tagged}
        for _ in range(count):
            start, inside = cursor.position, cursor.inside()
            tag = inside.unsigned_varint("tag")
            size = inside.unsigned_varint("size")
            field = known.get(tag)
            if field is None:
                inside.content("unknown", size)
            else:
                self._tagged_value(_Walk(inside, self._version, True), field)
            name = f"tag {tag}" if field is None else json_name(field)
            cursor.add(Span(name, start, inside.position, "tagged field", parts=inside.spans))

    def _tagged_value(self, walk: _Walk, field: Field) -> None:
        nullable = self._version in field.nullable
        if nullable and isinstance(field.type, StructType):
            present = walk._cursor.unsigned_varint("is present")
            if not present:
                walk._cursor.set_meaning("null")
                return
            nullable = False
        walk._value(field, field.type, json_name(field), nullable)
