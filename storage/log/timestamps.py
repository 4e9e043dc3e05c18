"""Look-ups by time for ListOffsets: the first record at or after a timestamp, and the record with the largest
timestamp.

For clients that are older than record timestamps: the last segment that was written before a time.

The time index is sparse and has only the largest timestamp before an offset. A look-up selects the segment by its
largest timestamp, an offset by the time index and a position by the offset index. From there it reads batches, then
records.

A look-up runs in steps, because clients decide the size of batches and the number of partitions. A step yields work for
a worker process, or ends the turn when the allowance is used up. Anything may happen to the log between two steps. So a
look-up holds no file open; it asks for the current log again and continues with its content. The result was true at
some moment between request and response.

If batch headers are correct, the first batch that is opened contains the result. The number of batches with a wrong
header that are opened, and of records that are read, is limited. Beyond the limit the result is the start of the next
batch: a client that reads from there reads too much, but misses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from storage.fs import FileSystem
from storage.index.time import TimestampOffset
from storage.log.batch_search import BatchGone, BatchSearch, SearchResult, search_file
from storage.log_config import LONG_MAX
from storage.segment.scan import Entry
from storage.segment.segment import Segment

if TYPE_CHECKING:
    from storage.log.local_log import LocalLog

T = TypeVar("T")

#: A computation of a T in steps. A step yields a search for `search_file`. The caller sends its result (None if the
#: search killed its process) or throws its error. Or a step yields None and is resumed when there is a new allowance.
Steps: TypeAlias = Generator[BatchSearch | None, SearchResult | None, T]

#: The limits of one look-up. A worker needs up to 0.2 s for so many small records.
_MOST_BATCHES, _MOST_RECORDS = 16, 1 << 17
#: The cost in allowance of a segment whose largest timestamp is unknown, of a batch that is searched on the event loop
#: (besides its records), and of opening a file to read its modification time.
_NEW_SEGMENT, _BATCH, _FILE = 100, 20, 20


class Allowance:
    """A budget for one turn of the event loop: `left` records or headers, at most 2.5 us each."""

    __slots__ = ("left",)

    def __init__(self, left: float = math.inf) -> None:
        self.left = left


class TimestampAndOffset(NamedTuple):
    """The timestamp (ms) and offset of a record, and the leader epoch of its batch; -1 if the batch has none."""

    timestamp: int
    offset: int
    leader_epoch: int


def find_timestamp(
    log_now: Callable[[], LocalLog], timestamp: int, allowance: Allowance
) -> Steps[TimestampAndOffset | None]:
    """Find the first record on this disk, from the log start offset on, whose timestamp is at least `timestamp` (ms).

    `log_now` returns the current log, or raises the reason why it cannot be read. Raises LogOffline, and
    OversizedRecord if a compressed record above max.decompressed.message.bytes is before the result in its batch.
    """
    look_up = _LookUp(allowance)
    found: TimestampAndOffset | None = None
    while True:
        log = log_now()
        log.check_usable()
        look_up.offset = max(look_up.offset, log.local_start_offset)
        if found is not None and found.offset >= look_up.offset:
            return found
        try:
            batch = look_up.next(log.segments.from_offset(look_up.offset), timestamp)
            if batch is None:
                return None
            found = yield from look_up.search(log, *batch, timestamp, first_offset=look_up.offset)
        except _AllowanceUsedUp:
            yield None
        except OSError as error:
            raise log.directory.fail(error) from error


def find_max_timestamp(log_now: Callable[[], LocalLog], allowance: Allowance) -> Steps[TimestampAndOffset | None]:
    """Find the first record with the largest timestamp (-1 if no record has one); None if the log has no records.

    `log_now` and errors are as for `find_timestamp`.
    """
    look_up = _LookUp(allowance)
    largest: TimestampOffset | None = None
    found: TimestampAndOffset | None = None
    while True:
        log = log_now()
        log.check_usable()
        if found is not None:
            return found
        try:
            for each in log.segments:
                look_up.note(each)
            segment = max(log.segments, key=lambda each: each.largest.timestamp)
            if segment.largest != largest:
                largest = segment.largest
                look_up.restart()
            batch = look_up.next([segment], largest.timestamp)
            if batch is None:  # the batch header has this timestamp, but none of its records
                return TimestampAndOffset(*largest, -1) if largest.timestamp >= 0 else None
            found = yield from look_up.search(log, *batch, largest.timestamp, exact=True)
        except _AllowanceUsedUp:
            yield None
        except OSError as error:
            raise log.directory.fail(error) from error


def run_to_completion(steps: Steps[T], fs: FileSystem) -> T:
    """Run all steps in this thread, however long they take, and return the result."""
    resume = partial(steps.send, None)
    try:
        while True:
            wanted = resume()
            try:
                resume = partial(steps.send, None if wanted is None else search_file(wanted, fs))
            except (OSError, BatchGone) as error:
                resume = partial(steps.throw, error)
    except StopIteration as end:
        found: T = end.value
        return found


def find_last_written_by(log_now: Callable[[], LocalLog], timestamp: int, allowance: Allowance) -> Steps[int]:
    """Find the base offset of the newest segment last written at or before `timestamp` (ms); -1 if there is none.

    `log_now` and errors are as for `find_timestamp`.
    """
    offset = LONG_MAX  # segments with a higher base offset were written later
    while True:
        log = log_now()
        log.check_usable()
        try:
            for number in range(log.segments.floor(offset), -1, -1):
                segment = log.segments[number]
                offset = segment.base_offset
                if allowance.left <= 0:
                    break
                allowance.left -= _FILE
                if log.directory.fs.modified_ms(segment.log.open().handle) <= timestamp:
                    return offset
            else:
                return -1
        except OSError as error:
            raise log.directory.fail(error) from error
        yield None


class _AllowanceUsedUp(Exception):
    """The allowance of this turn is used up."""


class _LookUp:
    """The progress of one look-up and its remaining limits.

    The result is neither below `offset` nor before `_position` in `_segment`, as long as the log has that segment.
    """

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._batches, self._records = _MOST_BATCHES, _MOST_RECORDS
        self.restart()

    def restart(self) -> None:
        """Start again at the first batch."""
        self.offset = 0
        self._segment: Segment | None = None
        self._position = 0

    def next(self, segments: Sequence[Segment], timestamp: int) -> tuple[Segment, Entry] | None:
        """Return the next batch whose largest timestamp is at least `timestamp`, with its segment; None if there is
        none.

        Raises _AllowanceUsedUp.
        """
        allowance, offset = self._allowance, self.offset
        if self._segment in segments:
            segments = segments[segments.index(self._segment) :]
        for segment in segments:
            if segment is self._segment:
                entries = segment.scan(self._position)
            else:
                self.note(segment)
                self._segment, self._position = segment, segment.size_bytes
                if segment.largest_timestamp < timestamp:
                    continue
                entries = segment.scan_from_timestamp(timestamp, offset)
            for entry in entries:
                self._position = entry.position
                if allowance.left <= 0:
                    raise _AllowanceUsedUp
                allowance.left -= 1
                if entry.max_timestamp >= timestamp and entry.last_offset >= offset:
                    return segment, entry
            self._position = segment.size_bytes
        return None

    def note(self, segment: Segment) -> None:
        """Load the largest timestamp of a segment. Raises _AllowanceUsedUp."""
        if not segment.has_cached_largest:
            if self._allowance.left <= 0:
                raise _AllowanceUsedUp
            self._allowance.left -= _NEW_SEGMENT
            _ = segment.largest

    def search(
        self,
        log: LocalLog,
        segment: Segment,
        entry: Entry,
        timestamp: int,
        *,
        first_offset: int = 0,
        exact: bool = False,
    ) -> Steps[TimestampAndOffset | None]:
        """Find the first matching record of the batch that `next` returned.

        The result is the start of the batch if the limits do not allow a search. It is None if no record matches or the
        batch was removed; then the caller continues with `next`.
        """
        if not self._batches:
            return self._start_of(entry, log)
        self._batches -= 1
        most_bytes = log.config.max_decompressed_message_bytes
        wanted = BatchSearch(segment.log.path, entry, timestamp, exact, first_offset, self._records, most_bytes)
        searched = None
        if wanted.is_small:
            batch = log.directory.fs.pread(segment.log.open().handle, entry.size_bytes, entry.position)
            searched = wanted.of_small(batch)
            self._allowance.left -= _BATCH + (0 if searched is None else searched.records)
        if searched is None:
            try:
                searched = yield wanted
            except BatchGone:
                return None
        if searched is None or not searched.is_whole:
            return self._start_of(entry, log)
        if searched.found is not None:
            return TimestampAndOffset(*searched.found, _leader_epoch(entry))
        self._records -= searched.records
        self.offset = max(self.offset, entry.last_offset + 1)
        self._position = entry.position + entry.size_bytes
        return None

    def _start_of(self, entry: Entry, log: LocalLog) -> TimestampAndOffset:
        """Return the first offset of an entry.

        Entries of the old formats only have their last offset; for these it is the end of the previous entry.
        """
        first_offset = max(self.offset, log.local_start_offset)
        if entry.header is not None:
            first_offset = max(first_offset, entry.base_offset)
        return TimestampAndOffset(entry.max_timestamp, first_offset, _leader_epoch(entry))


def _leader_epoch(entry: Entry) -> int:
    return -1 if entry.header is None else entry.header.leader_epoch
