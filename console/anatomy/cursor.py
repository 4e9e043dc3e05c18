"""A cursor: reads values one after the other, and keeps a span for each of them."""

from __future__ import annotations

from struct import Struct

from console.anatomy.span import Span
from console.anatomy.text import shown
from protocol.errors import ProtocolError
from protocol.primitives import Primitive, read_unsigned_varint
from protocol.records.varint import decode_varint, decode_varlong


class Cursor:
    """Stands at `position` of `data`. Whatever reads beyond the end raises ProtocolError, or InvalidRecord."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position
        self._spans: list[Span] = []

    @property
    def spans(self) -> tuple[Span, ...]:
        """What was read so far at this level, in order."""
        return tuple(self._spans)

    def add(self, span: Span) -> None:
        """Take a span in that was made elsewhere, and go on behind it."""
        self._spans.append(span)
        self.position = span.end

    def inside(self) -> Cursor:
        """A cursor at the same place, for the parts of a span."""
        return Cursor(self.data, self.position)

    def number(self, name: str, kind: Primitive) -> int:
        """A value of fixed size; 0 is returned for what is no whole number."""
        layout = Struct(f">{kind.code}")
        end = self.position + layout.size
        if end > len(self.data):
            raise ProtocolError(f"the bytes end before {name} does")
        (value,) = layout.unpack_from(self.data, self.position)
        text = value.hex() if isinstance(value, bytes) else str(value).lower()
        self.add(Span(name, self.position, end, kind.name, text))
        return value if isinstance(value, int) else 0

    def varint(self, name: str) -> int:
        """A zigzag varint of 32 bits."""
        value, end = decode_varint(self.data, self.position)
        self.add(Span(name, self.position, end, "varint", str(value)))
        return value

    def varlong(self, name: str) -> int:
        """A zigzag varint of 64 bits."""
        value, end = decode_varlong(self.data, self.position)
        self.add(Span(name, self.position, end, "varlong", str(value)))
        return value

    def unsigned_varint(self, name: str) -> int:
        """A varint without a sign, as lengths have in flexible versions."""
        value, end = read_unsigned_varint(self.data, self.position)
        self.add(Span(name, self.position, end, "unsigned varint", str(value)))
        return value

    def content(self, name: str, size: int, kind: str = "bytes") -> bytes:
        """So many bytes; a length below 0 is null, which has none."""
        if size < 0:
            self.say("null")
            return b""
        end = self.position + size
        if end > len(self.data):
            raise ProtocolError(f"{name} reaches {end - len(self.data)} bytes beyond the end")
        piece = bytes(self.data[self.position : end])
        if size:
            self.add(Span(name, self.position, end, kind, shown(piece)))
        return piece

    def rest(self, name: str, meaning: str = "") -> None:
        """All that is left, where nobody knows what it is."""
        if self.position < len(self.data):
            piece = bytes(self.data[self.position :])
            self.add(Span(name, self.position, len(self.data), "bytes", shown(piece), meaning))

    def say(self, meaning: str) -> None:
        """What the value that was read last amounts to."""
        last = self._spans[-1]
        self._spans[-1] = Span(last.name, last.start, last.end, last.kind, last.value, meaning, last.parts)
