"""Bytes cut into lines: as they are, without their newline, and none longer than a bound."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """A line as it is sent."""

    value: bytes
    start: int
    """Where it begins in its file, in bytes."""
    end: int
    """Where the next one does: behind the newline."""
    cut_bytes: int = 0
    """How much of its end is left out, as it is longer than a line may be."""


class LineSplitter:
    """Takes bytes in pieces of any size, gives lines; keeps no more than one line's bound of them."""

    def __init__(self, max_line_bytes: int, offset: int = 0) -> None:
        self.line_start = offset
        """Where the line begins that has no newline yet."""
        self._max = max_line_bytes
        self._kept = bytearray()
        self._partial_bytes = 0

    @property
    def offset(self) -> int:
        """Where the next byte lies in the file."""
        return self.line_start + self._partial_bytes

    def feed(self, data: bytes) -> list[Line]:
        """Return the lines that end in `data`."""
        *ends, rest = data.split(b"\n")
        lines = [self._ended(piece, newline_bytes=1) for piece in ends]
        self._keep(rest)
        return lines

    def rest(self) -> Line | None:
        """Return what has no newline and will get none any more; None where there is nothing."""
        return self._ended(b"", newline_bytes=0) if self._partial_bytes else None

    def _keep(self, piece: bytes) -> None:
        self._partial_bytes += len(piece)
        self._kept += piece[: self._max - len(self._kept)]

    def _ended(self, piece: bytes, newline_bytes: int) -> Line:
        self._keep(piece)
        start, end = self.line_start, self.offset + newline_bytes
        line = Line(bytes(self._kept), start, end, self._partial_bytes - len(self._kept))
        self.line_start, self._partial_bytes = end, 0
        self._kept.clear()
        return line
