"""Look-ups by time (ListOffsets): the first record not earlier than a time, the record with the latest.

As the time index is sparse and says only what came before an offset: the segment by its largest timestamp, an offset by
its time index, a position by its offset index, then batch by batch and record by record.

All of it is work on the loop, and clients have written the batches. One whose header is true is the last that is looked
into; of others so many are, and so many records, and then a look-up is answered with where the next batch begins. Who
reads from there reads too much, and misses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from protocol.records.compression import DEFAULT_MAX_SIZE
from protocol.records.errors import RecordsError, TooLarge
from protocol.records.record import Record, iter_records
from storage.segment.scan import Entry
from storage.segment.segment import Segment

if TYPE_CHECKING:
    from storage.log.partition import PartitionLog

#: What one look-up looks at: a fifth of a second, where all of it is small records.
_MOST_BATCHES, _MOST_RECORDS = 16, 1 << 17
#: A compressed batch with more bytes of records is not looked into: a few bytes of a client would fill the memory.
_MOST_BYTES = 64 << 20


class TimestampAndOffset(NamedTuple):
    """A record's timestamp in ms and offset, and the leader epoch of its batch, -1 where that has none."""

    timestamp: int
    offset: int
    leader_epoch: int


def find_timestamp(log: PartitionLog, timestamp: int) -> TimestampAndOffset | None:
    """The first record from the log start offset on that is not earlier than `timestamp`."""
    look_up = _LookUp(log)
    for segment in log.segments:
        if segment.largest_timestamp < timestamp:
            continue
        for entry in segment.find_timestamp(timestamp):
            if entry.last_offset < log.log_start_offset:
                continue
            found = look_up.first(
                segment, entry, lambda record: record.timestamp >= timestamp and record.offset >= log.log_start_offset
            )
            if found is not None:
                return found
    return None


def find_max_timestamp(log: PartitionLog) -> TimestampAndOffset | None:
    """The first record with the largest timestamp, which is -1 where no record has one; None without a record."""
    segment = max(log.segments, key=lambda each: each.largest.timestamp)
    largest = segment.largest
    look_up = _LookUp(log)
    for entry in segment.find_timestamp(largest.timestamp):
        found = look_up.first(segment, entry, lambda record: record.timestamp == largest.timestamp)
        if found is not None:
            return found
    if largest.timestamp < 0:
        return None
    return TimestampAndOffset(*largest, -1)  # the header of the batch says so, its records do not


def segment_times(log: PartitionLog) -> list[tuple[int, int]]:
    """Base offset of each segment, and when it was last written to (ms). OSError."""
    modified_ms = log.directory.fs.modified_ms
    return [(each.base_offset, modified_ms(each.log.open().handle)) for each in log.segments]


class _LookUp:
    """One look-up: what it may still look at."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._batches, self._records = _MOST_BATCHES, _MOST_RECORDS

    def first(self, segment: Segment, entry: Entry, fits: Callable[[Record], bool]) -> TimestampAndOffset | None:
        """The first record of a batch that fits; None without, and where they are not what their header promises.

        Where the batch begins, with its largest timestamp, if it is too much to look at. Not of the formats before
        batches: their entries say where they end only, and no client writes them here.
        """
        limited = entry.header is not None
        if limited and not self._batches:
            return self._start_of(entry)
        self._batches -= limited
        data = self._log.directory.fs.pread(segment.log.open().handle, entry.size_bytes, entry.position)
        try:
            for record in iter_records(data, _MOST_BYTES if limited else DEFAULT_MAX_SIZE):
                if fits(record):
                    return TimestampAndOffset(record.timestamp, record.offset, _leader_epoch(entry))
                self._records -= limited
                if limited and self._records <= 0:
                    return self._start_of(entry)
        except TooLarge:
            return self._start_of(entry) if limited else None
        except RecordsError:
            pass
        return None

    def _start_of(self, entry: Entry) -> TimestampAndOffset:
        first_offset = max(entry.base_offset, self._log.log_start_offset)
        return TimestampAndOffset(entry.max_timestamp, first_offset, _leader_epoch(entry))


def _leader_epoch(entry: Entry) -> int:
    return -1 if entry.header is None else entry.header.leader_epoch
