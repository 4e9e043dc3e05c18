"""The time index: from a timestamp to the offset before which no record is that late.

    timestamp int64 | relativeOffset int32         12 bytes, big-endian; <base offset>.timeindex

An entry says: the largest timestamp so far, and the last offset of the batch that has it. Entries go with those of the
offset index; one more is added on roll and close, so that the last entry is the segment's largest timestamp. Both
fields grow: where the largest timestamp did not, there is no entry.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from protocol.records.batch import NO_TIMESTAMP
from storage.index.file import IndexFile


class TimestampOffset(NamedTuple):
    """A timestamp in ms and an offset; which record's, the giver says."""

    timestamp: int
    offset: int


class TimeIndex(IndexFile):
    """Entries by timestamp."""

    __slots__ = ()
    _layout = Struct(">qi")
    _entry_size = 12
    _kept_free = 1

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry unless the last one has as late a timestamp. Timestamp -1 is none."""
        if timestamp > self.last().timestamp:
            self._append(timestamp, offset - self.base_offset)

    def look_up(self, timestamp: int) -> TimestampOffset:
        """The last entry not later than `timestamp`; (-1, base offset) where there is none."""
        return self._at(self._floor(timestamp))

    def last(self) -> TimestampOffset:
        """The last entry; (-1, base offset) in an empty index."""
        return self._at(self.entries - 1)

    def _at(self, number: int) -> TimestampOffset:
        if number < 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        timestamp, relative_offset = self.entry(number)
        return TimestampOffset(timestamp, self.base_offset + relative_offset)
