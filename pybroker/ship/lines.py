"""Split bytes into lines: unchanged, without the newline, and none longer than a limit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """A line to be sent."""

    value: bytes
    start: int
    """The offset of its first byte in the file."""
    end: int
    """The offset after its newline, where the next line begins."""
    cut_bytes: int = 0
    """The number of bytes cut off at its end, because it was longer than the limit."""


class LineSplitter:
    """Turns pieces of bytes of any size into lines. It buffers at most the limit of one line."""

    def __init__(self, max_line_bytes: int, offset: int = 0) -> None:
        self.line_start = offset
        """The offset of the line that has no newline yet."""
        self._max = max_line_bytes
        self._kept = bytearray()
        self._partial_bytes = 0

    @property
    def offset(self) -> int:
        """Return the offset of the next byte of the file."""
        return self.line_start + self._partial_bytes

    def feed(self, data: bytes) -> list[Line]:
        """Return the lines that end in `data`."""
        *ends, rest = data.split(b"\n")
        lines = [self._ended(piece, newline_bytes=1) for piece in ends]
        self._keep(rest)
        return lines

    def rest(self) -> Line | None:
        """Return the last line of a complete file without a newline at its end; None when there is none."""
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
