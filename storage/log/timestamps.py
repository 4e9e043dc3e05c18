"""Look-ups by time (ListOffsets): the first record not earlier than a time, the record with the latest.

As the time index is sparse and says only what came before an offset: the segment by its largest timestamp, an offset by
its time index, a position by its offset index, then batch by batch and record by record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from protocol.records.errors import RecordsError
from protocol.records.record import Record, iter_records
from storage.segment.scan import Entry
from storage.segment.segment import Segment

if TYPE_CHECKING:
    from storage.log.partition import PartitionLog


class TimestampAndOffset(NamedTuple):
    """A record's timestamp in ms and offset, and the leader epoch of its batch, -1 where that has none."""

    timestamp: int
    offset: int
    leader_epoch: int


def find_timestamp(log: PartitionLog, timestamp: int) -> TimestampAndOffset | None:
    """The first record from the log start offset on that is not earlier than `timestamp`."""
    start = log.log_start_offset
    for segment in log.segments:
        if segment.largest_timestamp < timestamp:
            continue
        for entry in segment.find_timestamp(timestamp):
            if entry.last_offset < start:
                continue
            found = _first(log, segment, entry, lambda each: each.timestamp >= timestamp and each.offset >= start)
            if found is not None:
                return _answer(found, entry)
    return None


def find_max_timestamp(log: PartitionLog) -> TimestampAndOffset | None:
    """The first record with the largest timestamp, which is -1 where no record has one; None without a record."""
    segment = max(log.segments, key=lambda each: each.largest.timestamp)
    largest = segment.largest
    for entry in segment.find_timestamp(largest.timestamp):
        found = _first(log, segment, entry, lambda each: each.timestamp == largest.timestamp)
        if found is not None:
            return _answer(found, entry)
    if largest.timestamp < 0:
        return None
    return TimestampAndOffset(*largest, -1)  # the header of the batch says so, its records do not


def segment_times(log: PartitionLog) -> list[tuple[int, int]]:
    """Base offset of each segment, and when it was last written to (ms). OSError."""
    modified_ms = log.directory.fs.modified_ms
    return [(each.base_offset, modified_ms(each.log.open().handle)) for each in log.segments]


def _answer(record: Record, entry: Entry) -> TimestampAndOffset:
    return TimestampAndOffset(
        record.timestamp, record.offset, -1 if entry.header is None else entry.header.leader_epoch
    )


def _first(log: PartitionLog, segment: Segment, entry: Entry, is_wanted: Callable[[Record], bool]) -> Record | None:
    """The first record of a batch that is wanted; none where they are not what their header promises."""
    data = log.directory.fs.pread(segment.log.open().handle, entry.size_bytes, entry.position)
    found: Record | None = None
    try:
        # One at a time to the end: compressed, a batch may hold millions.
        for record in iter_records(data):
            if found is None and is_wanted(record):
                found = record
    except RecordsError:
        return None
    return found
