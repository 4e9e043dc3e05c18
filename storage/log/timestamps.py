"""Look-ups by time (ListOffsets): the first record not earlier than a time, the record with the latest.

For clients from before records had times: the last segment that was written to by a time.

As the time index is sparse and says only what came before an offset: the segment by its largest timestamp, an offset by
its time index, a position by its offset index, then batch by batch and record by record.

A look-up goes in steps, since clients have written the batches, and ask for as many partitions as they like. It gives
its caller what is to be done elsewhere, and ends its turn where an allowance is used up. Between two steps anything may
happen to the log: a look-up holds no file open, asks anew which log it is, and goes on in what that has then. What it
says was so at some moment between question and answer.

A batch whose header is true is the last one that is opened. Of batches with a wrong header only so many are opened, and
so many records read; then the answer is where the next batch begins. Whoever reads from there reads too much, and
misses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from storage.fs import FileSystem
from storage.index.time import TimestampOffset
from storage.log.batch_search import BatchGone, BatchSearch, Searched, search_file
from storage.log_config import LONG_MAX
from storage.segment.scan import Entry
from storage.segment.segment import Segment

if TYPE_CHECKING:
    from storage.log.partition_log import PartitionLog

T = TypeVar("T")

#: Works out a T in steps. It yields a batch for `search_file`, and is sent the result (None if the search ended its
#: process) or thrown the error; or it yields None, and is resumed when there is an allowance again.
Steps: TypeAlias = Generator[BatchSearch | None, Searched | None, T]

#: How much one look-up opens at most: so many small records take a worker a fifth of a second.
_MOST_BATCHES, _MOST_RECORDS = 16, 1 << 17
#: What is taken off an allowance: for a segment whose largest timestamp is not known yet, for a batch searched here
#: besides its records, and for a file that is opened to ask when it was written to.
_NEW_SEGMENT, _BATCH, _FILE = 100, 20, 20


class Allowance:
    """How much may be done in this turn: `left` records or headers may still be looked at, 2.5 us each at most."""

    __slots__ = ("left",)

    def __init__(self, left: float = math.inf) -> None:
        self.left = left


class TimestampAndOffset(NamedTuple):
    """A record's timestamp in ms and offset, and the leader epoch of its batch, -1 where that has none."""

    timestamp: int
    offset: int
    leader_epoch: int


def find_timestamp(
    log_now: Callable[[], PartitionLog], timestamp: int, allowance: Allowance
) -> Steps[TimestampAndOffset | None]:
    """The first record from the log start offset on that is not earlier than `timestamp`.

    `log_now` gives the log whenever it is looked at, or raises what keeps it from being read. LogOffline.
    """
    look_up = _LookUp(allowance)
    found: TimestampAndOffset | None = None
    while True:
        log = log_now()
        log.check_usable()
        look_up.offset = max(look_up.offset, log.log_start_offset)
        if found is not None and found.offset >= look_up.offset:
            return found
        try:
            place = look_up.next(log.segments.from_offset(look_up.offset), timestamp)
            if place is None:
                return None
            found = yield from look_up.search(log, *place, timestamp, first_offset=look_up.offset)
        except _TurnOver:
            yield None
        except OSError as error:
            raise log.directory.fail(error) from error


def find_max_timestamp(log_now: Callable[[], PartitionLog], allowance: Allowance) -> Steps[TimestampAndOffset | None]:
    """The first record with the largest timestamp, which is -1 where no record has one; None without a record.

    `log_now`, errors: as `find_timestamp`.
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
                look_up.begin_anew()
            place = look_up.next([segment], largest.timestamp)
            if place is None:  # the header of the batch says so, its records do not
                return TimestampAndOffset(*largest, -1) if largest.timestamp >= 0 else None
            found = yield from look_up.search(log, *place, largest.timestamp, exact=True)
        except _TurnOver:
            yield None
        except OSError as error:
            raise log.directory.fail(error) from error


def at_once(steps: Steps[T], fs: FileSystem) -> T:
    """What comes of it, however long it takes."""
    go_on = partial(steps.send, None)
    try:
        while True:
            wanted = go_on()
            try:
                go_on = partial(steps.send, None if wanted is None else search_file(wanted, fs))
            except (OSError, BatchGone) as error:
                go_on = partial(steps.throw, error)
    except StopIteration as end:
        found: T = end.value
        return found


def find_last_written_by(log_now: Callable[[], PartitionLog], timestamp: int, allowance: Allowance) -> Steps[int]:
    """Base offset of the newest segment whose file was last written to at `timestamp` (ms) or before; -1 without one.

    `log_now`, errors: as `find_timestamp`.
    """
    offset = LONG_MAX  # all segments that begin above it were written to later
    while True:
        log = log_now()
        log.check_usable()
        try:
            for place in range(log.segments.floor(offset), -1, -1):
                segment = log.segments[place]
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


class _TurnOver(Exception):
    """The allowance is used up."""


class _LookUp:
    """One look-up: how far it has come, and what it may still look at.

    No record below `offset` is the one looked for, and none before `_position` in `_segment`, as long as that segment
    is part of the log.
    """

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._batches, self._records = _MOST_BATCHES, _MOST_RECORDS
        self.begin_anew()

    def begin_anew(self) -> None:
        """From the first batch on."""
        self.offset = 0
        self._segment: Segment | None = None
        self._position = 0

    def next(self, segments: Sequence[Segment], timestamp: int) -> tuple[Segment, Entry] | None:
        """The next batch whose largest timestamp is not below `timestamp`, and where it lies; None where there is none.

        Raises _TurnOver.
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
                    raise _TurnOver
                allowance.left -= 1
                if entry.max_timestamp >= timestamp and entry.last_offset >= offset:
                    return segment, entry
            self._position = segment.size_bytes
        return None

    def note(self, segment: Segment) -> None:
        """Have its largest timestamp known. Raises _TurnOver."""
        if not segment.knows_largest:
            if self._allowance.left <= 0:
                raise _TurnOver
            self._allowance.left -= _NEW_SEGMENT
            _ = segment.largest

    def search(
        self,
        log: PartitionLog,
        segment: Segment,
        entry: Entry,
        timestamp: int,
        *,
        first_offset: int = 0,
        exact: bool = False,
    ) -> Steps[TimestampAndOffset | None]:
        """The first record that fits of the batch that `next` gave, or where it begins if it is too much to look at.

        None where to go on with `next`: it has none, or is not where it was any more.
        """
        if not self._batches:
            return self._start_of(entry, log)
        self._batches -= 1
        wanted = BatchSearch(segment.log.path, entry, timestamp, exact, first_offset, self._records)
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

    def _start_of(self, entry: Entry, log: PartitionLog) -> TimestampAndOffset:
        """Where an entry begins. In formats before batches it says only where it ends: then, where the last ended."""
        first_offset = max(self.offset, log.log_start_offset)
        if entry.header is not None:
            first_offset = max(first_offset, entry.base_offset)
        return TimestampAndOffset(entry.max_timestamp, first_offset, _leader_epoch(entry))


def _leader_epoch(entry: Entry) -> int:
    return -1 if entry.header is None else entry.header.leader_epoch
