"""Find the first record at or after a time among those that only remote storage has.

It selects a segment by its largest timestamp, an offset by the time index, and opens batches as
storage/log/timestamps.py does for local segments, with the same limits.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial as bound
from typing import TYPE_CHECKING, Any

from broker.requests.error_code_map import RequestTimedOut
from broker.tiering.reading.downloads import Wanted
from runtime.deferred import Deferred
from storage.errors import CorruptFile
from storage.log.batch_search import BatchGone, BatchSearch, SearchResult
from storage.log.timestamps import Allowance, TimestampAndOffset
from storage.segment.scan import Entry, scan_entries

if TYPE_CHECKING:
    from broker.replicas.partition import Partition
    from broker.tiering.reading.reader import RemoteReader
    from broker.tiering.reading.run import Run
    from runtime.clock import Clock
    from runtime.timers import Timers
    from tiered.segment import RemoteSegment

#: The limits of one look-up, and the cost in allowance of a batch that is searched on the event loop.
_MOST_BATCHES, _MOST_RECORDS, _BATCH = 16, 1 << 17, 20

_Steps = Generator[Any, Any, TimestampAndOffset | None]


class TimeLookUp:
    """One look-up. `steps` yields searches, Deferreds to wait for, and None at the end of a turn."""

    def __init__(
        self,
        reader: RemoteReader,
        timers: Timers,
        clock: Clock,
        partition: Partition,
        timestamp: int,
        allowance: Allowance,
        deadline_ms: int,
    ) -> None:
        self._reader = reader
        self._timers = timers
        self._clock = clock
        self._partition = partition
        self._timestamp = timestamp
        self._allowance = allowance
        self._deadline_ms = deadline_ms
        self._batches, self._records = _MOST_BATCHES, _MOST_RECORDS

    def steps(self) -> _Steps:
        """Return the record; None if remote storage has none below the local log start offset."""
        remote_log = self._reader.remote_log(self._partition)
        while (loading := self._reader.when_loaded(remote_log)) is not None:
            yield from self._until(loading)
        offset = self._partition.log.log_start_offset
        while True:
            log = self._partition.log
            offset = max(offset, log.log_start_offset)
            segment = next(self._reader.segments_from(remote_log, log, offset), None)
            if segment is None:
                return None
            if segment.max_timestamp_ms >= self._timestamp:
                found = yield from self._in_segment(segment, offset)
                if found is not None:
                    return found
            offset = segment.end_offset + 1
            self._allowance.left -= 1
            if self._allowance.left <= 0:
                yield None

    def _in_segment(self, segment: RemoteSegment, first_offset: int) -> _Steps:
        remote_log = self._reader.remote_log(self._partition)
        indexed = self._reader.downloads.run(
            bound(self._reader.indexes.offset_of_time, remote_log.partition, segment, self._timestamp)
        )
        yield from self._until(indexed)
        at = max(first_offset, indexed.result())
        while at <= segment.end_offset:
            run = self._reader.runs.find(segment.id, at)
            if run is None:
                yield from self._until(self._reader.downloads.start(Wanted(remote_log.partition, segment, at)))
                continue
            try:
                entry = self._next_batch(run, at)
            except (OSError, CorruptFile):
                self._reader.runs.remove(run)
                continue
            if entry is None:
                at = run.content.end_offset
                continue
            if self._allowance.left <= 0:
                yield None
                continue
            if not self._batches:
                return _start_of(entry, at)
            self._batches -= 1
            try:
                searched = yield from self._search(run, entry, at)
            except (BatchGone, OSError):  # it was removed from the cache meanwhile
                continue
            if searched is None or not searched.is_whole:
                return _start_of(entry, at)
            if searched.found is not None:
                return TimestampAndOffset(*searched.found, _leader_epoch(entry))
            self._records -= searched.records
            at = entry.last_offset + 1
        return None

    def _next_batch(self, run: Run, at: int) -> Entry | None:
        """Return the first batch from `at` on with a timestamp as late as the wanted one. Raises as `Run.locate`."""
        if at >= run.content.records_end_offset:
            return None
        file = run.open()
        for entry in scan_entries(run.fs, file.handle, run.locate(at).position, run.content.size_bytes):
            self._allowance.left -= 1
            if entry.max_timestamp >= self._timestamp and entry.last_offset >= at:
                return entry
        return None

    def _search(self, run: Run, entry: Entry, at: int) -> Generator[Any, Any, SearchResult | None]:
        most_bytes = self._partition.log.config.max_decompressed_message_bytes
        wanted = BatchSearch(run.path, entry, self._timestamp, False, at, self._records, most_bytes)
        if wanted.is_small:
            searched = wanted.of_small(run.fs.pread(run.open().handle, entry.size_bytes, entry.position))
            self._allowance.left -= _BATCH + (0 if searched is None else searched.records)
            if searched is not None:
                return searched
        found: SearchResult | None = yield wanted
        return found

    def _until(self, waited: Deferred[Any]) -> Generator[Any, Any, None]:
        """Wait for a Deferred. Raises its error, or RequestTimedOut at the deadline."""
        if not waited.done:
            either: Deferred[None] = Deferred()
            timer = self._timers.call_at(self._deadline_ms, bound(_settle, either))
            waited.add_done_callback(lambda _: _settle(either))
            try:
                yield either
            finally:
                timer.cancel()
                either.cancel()
            if not waited.done:
                raise RequestTimedOut
        elif self._clock.monotonic_ms() >= self._deadline_ms:
            raise RequestTimedOut
        waited.result()


def _settle(either: Deferred[None]) -> None:
    if not either.done:
        either.resolve(None)


def _start_of(entry: Entry, at: int) -> TimestampAndOffset:
    """Return the first offset of a batch that is not searched: a reader from there misses nothing."""
    first_offset = at if entry.header is None else max(at, entry.base_offset)
    return TimestampAndOffset(entry.max_timestamp, first_offset, _leader_epoch(entry))


def _leader_epoch(entry: Entry) -> int:
    return -1 if entry.header is None else entry.header.leader_epoch
