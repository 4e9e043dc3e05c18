"""The time index: from a timestamp to an offset before which all records are earlier.

    timestamp int64 | relativeOffset int32         12 bytes, big-endian; <base offset>.timeindex

An entry has the largest timestamp so far and the last offset of the batch that has it. It is written together with an
entry of the offset index. One more is added on roll and close, so the last entry has the segment's largest timestamp.
Both fields increase: no entry is written if the largest timestamp is unchanged.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from protocol.records.batch import NO_TIMESTAMP
from storage.index.file import IndexFile

_TIMESTAMP = Struct(">q").unpack_from


class TimestampOffset(NamedTuple):
    """A timestamp in ms and an offset. The function that returns it defines the record it belongs to."""

    timestamp: int
    offset: int


class TimeIndex(IndexFile):
    """Entries by timestamp."""

    __slots__ = ()
    _layout = Struct(">qi")
    _entry_size = 12
    _kept_free = 1

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry unless the last one is at least as late. Timestamp -1 adds none."""
        tail = self._tail
        latest = _TIMESTAMP(tail, len(tail) - self._entry_size)[0] if tail else self.last().timestamp
        if timestamp > latest:
            self._append(timestamp, offset - self.base_offset)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries of batches that end at `offset` or later."""
        self._truncate(self._floor(offset - 1 - self.base_offset, field=1) + 1)

    def look_up(self, timestamp: int) -> TimestampOffset:
        """Return the last entry that is not later than `timestamp`; (-1, base offset) if there is none."""
        return self._at(self._floor(timestamp))

    def last(self) -> TimestampOffset:
        """Return the last entry; (-1, base offset) if the index is empty."""
        return self._at(self.entries - 1)

    def _at(self, number: int) -> TimestampOffset:
        if number < 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        timestamp, relative_offset = self.entry(number)
        return TimestampOffset(timestamp, self.base_offset + relative_offset)
