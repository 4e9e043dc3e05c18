"""Messages field by field, with the bytes of each: interprets the schemas that the decoders are compiled from."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from protocol.compiler import Layout, tag_of
from protocol.id_text import id_text
from protocol.primitives import Primitive, read_unsigned_varint, uuid
from protocol.records.batch import HEADER_SIZE, BatchHeader, parse_header
from protocol.schema import Array, Message, StructType
from tools.data.java_text import JsonValue
from tools.wire.sessions.plain import HIDDEN, SECRETS, text_or_base64


class FieldSpan(NamedTuple):
    """A piece of a message: its path, its type, its position in the buffer, and its value.

    A list has a piece with its count before its fields, and a nullable struct one with its null mark.
    """

    path: str
    type: str
    position: int
    size: int
    value: JsonValue


def walk(message: Message, version: int, buffer: bytes, position: int = 0) -> Iterator[FieldSpan]:
    """Yield the pieces of a message in wire order, without gaps. The bytes must be a valid message."""
    yield from _Walker(version, buffer, position).fields(message, "", version in message.flexible)


class _Walker:
    def __init__(self, version: int, buffer: bytes, position: int) -> None:
        self._version = version
        self._buffer = buffer
        self._position = position

    def fields(self, kind: StructType, path: str, flexible: bool) -> Iterator[FieldSpan]:
        layout = Layout(kind, self._version, flexible)
        for field in layout.plain:
            place = f"{path}.{field.name}" if path else field.name
            nullable = self._version in field.nullable
            yield from self._value(field.type, place, flexible and field.flexible, nullable)
        if flexible:
            yield from self._tagged(layout, path)

    def _tagged(self, layout: Layout, path: str) -> Iterator[FieldSpan]:
        start, count = self._position, self._varint()
        yield self._seen(f"{path}.(tags)" if path else "(tags)", "tagged fields", start, count)
        known = {tag_of(field): field for field in layout.tagged}
        for _ in range(count):
            start = self._position
            tag = self._varint()
            size = self._varint()
            end = self._position + size
            if tag not in known:
                self._position = end
                yield self._seen(f"{path}.(tag {tag})".lstrip("."), "unknown", start, f"{size} bytes")
                continue
            field = known[tag]
            place = f"{path}.{field.name}" if path else field.name
            yield self._seen(f"{place}.(tag)", "tag and size", start, f"{tag}, {size} bytes")
            if isinstance(field.type, StructType) and self._version in field.nullable:
                start, mark = self._position, self._varint()
                yield self._seen(place, field.type.name, start, None if mark == 0 else "struct")
                if mark:
                    yield from self.fields(field.type, place, True)
            else:
                yield from self._value(field.type, place, True, self._version in field.nullable)

    def _value(
        self, kind: Primitive | Array | StructType, path: str, flexible: bool, nullable: bool = False
    ) -> Iterator[FieldSpan]:
        start = self._position
        if isinstance(kind, StructType):
            if nullable:
                (mark,) = struct.unpack(">b", self._take(1))
                yield self._seen(path, kind.name, start, None if mark < 0 else "struct")
                if mark < 0:
                    return
            yield from self.fields(kind, path, flexible)
        elif isinstance(kind, Array):
            count = self._varint() - 1 if flexible else struct.unpack(">i", self._take(4))[0]
            yield self._seen(path, repr(kind), start, None if count < 0 else count)
            for number in range(count):
                yield from self._value(kind.element, f"{path}[{number}]", flexible)
        elif kind.code:
            (value,) = struct.unpack(f">{kind.code}", self._take(kind.size))
            yield self._seen(path, kind.name, start, id_text(value) if kind is uuid else value)
        else:
            yield self._of_length(kind, path, flexible)

    def _of_length(self, kind: Primitive, path: str, flexible: bool) -> FieldSpan:
        start = self._position
        if flexible:
            size = self._varint() - 1
        else:
            size = struct.unpack(">h" if kind.name == "string" else ">i", self._take(kind.size))[0]
        data = self._take(size) if size > 0 else b""
        value: JsonValue
        if size < 0:
            value = None
        elif kind.name == "string":
            value = data.decode("utf-8", "replace")
        elif path.rpartition(".")[2] in SECRETS:
            value = HIDDEN
        else:
            value = f"{size} bytes" if kind.name == "records" else text_or_base64(data)
        return self._seen(path, kind.name, start, value)

    def _seen(self, path: str, kind: str, start: int, value: JsonValue) -> FieldSpan:
        return FieldSpan(path, kind, start, self._position - start, value)

    def _varint(self) -> int:
        value, self._position = read_unsigned_varint(self._buffer, self._position)
        return value

    def _take(self, size: int) -> bytes:
        start, self._position = self._position, self._position + size
        return self._buffer[start : self._position]


_HEADER = (
    *(("base_offset", "q"), ("batch_length", "i"), ("leader_epoch", "i"), ("magic", "b"), ("crc", "I")),
    *(("attributes", "h"), ("last_offset_delta", "i"), ("base_timestamp", "q"), ("max_timestamp", "q")),
    *(("producer_id", "q"), ("producer_epoch", "h"), ("base_sequence", "i"), ("record_count", "i")),
)


def batch_fields(buffer: bytes, position: int = 0) -> Iterator[FieldSpan]:
    """Yield the header of the v2 batch at `position`, then its records as they are stored."""
    header = parse_header(buffer, position)
    start = position
    for name, code in _HEADER:
        size = struct.calcsize(f">{code}")
        value = getattr(header, name)
        shown: JsonValue = value
        if name == "attributes":
            shown = _attributes(header)
        elif name == "crc":
            shown = f"{value:#010x}"
        yield FieldSpan(name, code, start, size, shown)
        start += size
    yield FieldSpan("records", "bytes", start, header.size_bytes - HEADER_SIZE, f"{header.record_count} records")


def _attributes(header: BatchHeader) -> str:
    said = [f"codec {header.codec}", "LogAppendTime" if header.timestamp_type else "CreateTime"]
    said += ["transactional"] if header.is_transactional else []
    said += ["control"] if header.is_control else []
    return f"{header.attributes:#06x} ({', '.join(said)})"
