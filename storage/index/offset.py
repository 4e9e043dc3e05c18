"""The offset index: from an offset to the position in the segment file where the search for it starts.

    relativeOffset int32 | position int32          8 bytes, big-endian; <base offset>.index

An entry has the last offset of the batch at `position`, so that batch never begins after the offset. The index is
sparse: one entry per index.interval.bytes, and none for the first batch of a segment.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from storage.errors import CorruptFile
from storage.index.file import IndexFile


class OffsetPosition(NamedTuple):
    """An offset and a position in the segment file."""

    offset: int
    position: int


class OffsetIndex(IndexFile):
    """Entries by offset."""

    __slots__ = ()
    _layout = Struct(">ii")
    _entry_size = 8

    def append(self, offset: int, position: int) -> None:
        """Add an entry. The caller ensures that both values increase and that there is room."""
        self._append(offset - self.base_offset, position)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries of batches that end at `offset` or later."""
        self._truncate(self._floor(offset - 1 - self.base_offset) + 1)

    def look_up(self, offset: int) -> OffsetPosition:
        """Return the last entry whose offset is at most `offset`; the start of the segment if there is none."""
        return self._at(self._floor(offset - self.base_offset))

    def last(self) -> OffsetPosition:
        """Return the last entry; the start of the segment if the index is empty."""
        return self._at(self.entries - 1)

    def before_position(self, position: int) -> int:
        """Return the largest indexed position that is at most `position`; 0 if there is none."""
        number = self._floor(position, field=1)
        return self.entry(number)[1] if number >= 0 else 0

    def above_position(self, position: int) -> int | None:
        """Return the offset of the first entry whose position is at least `position`, or None."""
        number = self._floor(position - 1, field=1) + 1
        return self.base_offset + self.entry(number)[0] if number < self.entries else None

    def _at(self, number: int) -> OffsetPosition:
        if number < 0:
            return OffsetPosition(self.base_offset, 0)
        relative_offset, position = self.entry(number)
        if position <= 0:  # for example zeros in a file that was never truncated
            raise CorruptFile(self.file.path, f"entry {number} points at byte {position}")
        return OffsetPosition(self.base_offset + relative_offset, position)
