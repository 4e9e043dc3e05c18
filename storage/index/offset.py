"""The offset index: from an offset to where to begin looking for it in the segment file.

    relativeOffset int32 | position int32          8 bytes, big-endian; <base offset>.index

An entry names the last offset of what was appended at `position`, so what lies there never begins after that offset.
It is sparse: one entry each index.interval.bytes, and none for the first batch of a segment.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from storage.errors import CorruptFile
from storage.index.file import IndexFile


class OffsetPosition(NamedTuple):
    """An offset and a byte in the segment file."""

    offset: int
    position: int


class OffsetIndex(IndexFile):
    """Entries by offset."""

    __slots__ = ()
    _layout = Struct(">ii")
    _entry_size = 8

    def append(self, offset: int, position: int) -> None:
        """Offsets and positions both grow; the caller sees to it, and that there is room."""
        self._append(offset - self.base_offset, position)

    def look_up(self, offset: int) -> OffsetPosition:
        """The last entry not above `offset`; the segment's beginning where there is none."""
        return self._at(self._floor(offset - self.base_offset))

    def last(self) -> OffsetPosition:
        """The last entry; the segment's beginning in an empty index."""
        return self._at(self.entries - 1)

    def before_position(self, position: int) -> int:
        """The position of the last entry at `position` or before it; 0 where there is none."""
        number = self._floor(position, field=1)
        return self.entry(number)[1] if number >= 0 else 0

    def above_position(self, position: int) -> int | None:
        """The offset of the first entry at `position` or behind it, None where there is none."""
        number = self._floor(position - 1, field=1) + 1
        return self.base_offset + self.entry(number)[0] if number < self.entries else None

    def _at(self, number: int) -> OffsetPosition:
        if number < 0:
            return OffsetPosition(self.base_offset, 0)
        relative_offset, position = self.entry(number)
        if position <= 0:  # such as the zeros of a file that was never cut to its entries
            raise CorruptFile(self.file.path, f"entry {number} points at byte {position}")
        return OffsetPosition(self.base_offset + relative_offset, position)
