"""A cursor that reads values one after the other, and keeps a span for each of them."""

from __future__ import annotations

from struct import Struct

from console.anatomy.span import Span
from console.anatomy.text import shown
from protocol.error_codes import ProtocolError
from protocol.primitives import Primitive, read_unsigned_varint
from protocol.records.varint import decode_varint, decode_varlong


class Cursor:
    """A read position in `data`. Reads beyond the end raise ProtocolError or InvalidRecord."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position
        self._spans: list[Span] = []

    @property
    def spans(self) -> tuple[Span, ...]:
        """Return the spans read so far at this level, in order."""
        return tuple(self._spans)

    def add(self, span: Span) -> None:
        """Append a span that was made elsewhere, and continue after it."""
        self._spans.append(span)
        self.position = span.end

    def inside(self) -> Cursor:
        """Return a cursor at the same position, for the parts of a span."""
        return Cursor(self.data, self.position)

    def number(self, name: str, kind: Primitive) -> int:
        """Read a value of fixed size; return 0 for types that are not integers."""
        layout = Struct(f">{kind.code}")
        end = self.position + layout.size
        if end > len(self.data):
            raise ProtocolError(f"the bytes end before {name} does")
        (value,) = layout.unpack_from(self.data, self.position)
        text = value.hex() if isinstance(value, bytes) else str(value).lower()
        self.add(Span(name, self.position, end, kind.name, text))
        return value if isinstance(value, int) else 0

    def varint(self, name: str) -> int:
        """Read a zigzag varint of 32 bits."""
        value, end = decode_varint(self.data, self.position)
        self.add(Span(name, self.position, end, "varint", str(value)))
        return value

    def varlong(self, name: str) -> int:
        """Read a zigzag varint of 64 bits."""
        value, end = decode_varlong(self.data, self.position)
        self.add(Span(name, self.position, end, "varlong", str(value)))
        return value

    def unsigned_varint(self, name: str) -> int:
        """Read an unsigned varint, the type of lengths in flexible versions."""
        value, end = read_unsigned_varint(self.data, self.position)
        self.add(Span(name, self.position, end, "unsigned varint", str(value)))
        return value

    def content(self, name: str, size: int, kind: str = "bytes") -> bytes:
        """Read `size` bytes; a negative size means null, which has no bytes."""
        if size < 0:
            self.set_meaning("null")
            return b""
        end = self.position + size
        if end > len(self.data):
            raise ProtocolError(f"{name} reaches {end - len(self.data)} bytes beyond the end")
        piece = bytes(self.data[self.position : end])
        if size:
            self.add(Span(name, self.position, end, kind, shown(piece)))
        return piece

    def rest(self, name: str, meaning: str = "") -> None:
        """Read all remaining bytes as one span, for content of unknown format."""
        if self.position < len(self.data):
            piece = bytes(self.data[self.position :])
            self.add(Span(name, self.position, len(self.data), "bytes", shown(piece), meaning))

    def set_meaning(self, meaning: str) -> None:
        """Set the meaning of the last span."""
        last = self._spans[-1]
        self._spans[-1] = Span(last.name, last.start, last.end, last.kind, last.value, meaning, last.parts)
