"""Reads of records that only remote storage has: from the cache of runs, which downloads fill."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial as bound
from typing import TYPE_CHECKING, Any

from broker.replicas.remote_reads import RemoteRecords
from broker.tiering.reading.aborted import AbortedWalk, overlapping
from broker.tiering.reading.downloads import Downloads, RunReader, Wanted
from broker.tiering.reading.index_cache import IndexCache
from broker.tiering.reading.run_cache import RunCache
from broker.tiering.reading.time_look_up import TimeLookUp
from remote.layout import Layout
from runtime.deferred import Deferred
from storage.errors import CorruptFile, OffsetOutOfRange
from storage.fetch_slice import FetchSlice
from storage.fs import LOCAL, FileSystem
from storage.log.aborted_transactions import fetch_upper_bound
from storage.open_files import OpenFiles
from tiered.lineage import Lineage
from tiered.segment import RemoteSegment

if TYPE_CHECKING:
    from broker.replicas.partition import Partition
    from broker.tiering.counts import TierCounts
    from broker.tiering.rate_quota import RateQuota
    from broker.tiering.reading.run import Run
    from broker.tiering.remote_logs import RemoteLog, RemoteLogs
    from config import BrokerConfig
    from runtime.clock import Clock
    from runtime.thread_pool import ThreadPool
    from runtime.timers import Timers
    from storage.log.partition_log import PartitionLog
    from storage.log.timestamps import Allowance, TimestampAndOffset

#: Descriptors of runs that are kept open.
_OPEN_RUNS = 64
#: How often a read looks whether the metadata is loaded.
_LOADING_MS = 50
_INDEX_BYTES = "remote.log.index.file.cache.total.size.bytes"


class RemoteReader:
    """The `RemoteReads` of a process (broker/replicas/remote_reads.py), for its tiered partitions."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        timers: Timers,
        threads: ThreadPool,
        quota: RateQuota,
        counts: TierCounts,
        remote_logs: RemoteLogs,
        layout: Layout,
        log_dir: str,
        fs: FileSystem = LOCAL,
    ) -> None:
        self._config = config
        self._clock = clock
        self._timers = timers
        self._remote_logs = remote_logs
        self.indexes = IndexCache(
            fs,
            log_dir,
            layout,
            config.get_int(_INDEX_BYTES),
            config.get_int("remote.log.index.file.cache.ttl.ms"),
            clock.monotonic_ms,
        )
        config.subscribe(_INDEX_BYTES, lambda changed: self.indexes.limit(changed.get_int(_INDEX_BYTES)))
        reader = RunReader(fs, log_dir, layout, self.indexes)
        reader.clear()
        self.indexes.load()
        self.runs = RunCache(
            OpenFiles(fs, _OPEN_RUNS),
            lambda: config.get_int("pybroker.remote.cache.bytes"),
            lambda path: threads(reader.remove_file, path),
        )
        self.downloads = Downloads(reader, self.runs, threads, quota, counts, clock, timers, self._most_waiting)
        self._loading: Deferred[None] | None = None

    def _most_waiting(self) -> int:
        pending: int = self._config.get_int("remote.log.reader.max.pending.tasks")
        return self._config.get_int("remote.log.reader.threads") + pending

    @property
    def max_wait_ms(self) -> int:
        return self._config.get_int("remote.fetch.max.wait.ms")

    @property
    def look_up_ms(self) -> int:
        return self._config.get_int("remote.list.offsets.request.timeout.ms")

    def forget(self, segment: RemoteSegment) -> None:
        """Remove what is cached of a segment, which was deleted."""
        self.runs.forget(segment.id)
        self.downloads.run(bound(self.indexes.forget, segment))

    # -- where records are -------------------------------------------------------------------------------------------

    def when_loaded(self, remote_log: RemoteLog) -> Deferred[None] | None:
        """Return what to wait for until the metadata of the partition may be loaded; None if it is."""
        if remote_log.is_loaded:
            return None
        loading = self._loading
        if loading is None or loading.done:
            loading = self._loading = Deferred()
            self._timers.call_later(_LOADING_MS, bound(loading.resolve, None))
        return loading

    def remote_log(self, partition: Partition) -> RemoteLog:
        """Return the remote part of a partition."""
        return self._remote_logs.get(partition.topic_id, partition.index)

    def segment_of(self, remote_log: RemoteLog, log: PartitionLog, offset: int) -> RemoteSegment:
        """Return the segment that has the records of `log` at `offset`. Raises OffsetOutOfRange."""
        epoch = Lineage(log.leader_epochs.entries, log.log_end_offset).epoch_of(offset)
        segment = None if epoch is None else remote_log.segments.find(epoch, offset)
        if segment is None:
            raise OffsetOutOfRange(offset, log.log_start_offset, log.log_end_offset)
        return segment

    def segments_from(self, remote_log: RemoteLog, log: PartitionLog, offset: int) -> Iterator[RemoteSegment]:
        """Yield the segments with the records from `offset` up to the local log start offset."""
        while offset < log.local_start_offset:
            try:
                segment = self.segment_of(remote_log, log, offset)
            except OffsetOutOfRange:
                return
            yield segment
            offset = segment.end_offset + 1

    # -- records -----------------------------------------------------------------------------------------------------

    def read(
        self,
        partition: Partition,
        offset: int,
        max_bytes: int,
        *,
        min_one_batch: bool = True,
        with_aborted: bool = False,
    ) -> RemoteRecords | Deferred[None]:
        log, remote_log = partition.log, self.remote_log(partition)
        loading = self.when_loaded(remote_log)
        if loading is not None:
            return loading
        if offset < log.log_start_offset:
            raise OffsetOutOfRange(offset, log.log_start_offset, log.log_end_offset)
        at = offset
        while at < log.local_start_offset:
            segment = self.segment_of(remote_log, log, at)
            run = self.runs.find(segment.id, at)
            if run is None:
                return self.downloads.start(Wanted(remote_log.partition, segment, at))
            if at >= run.content.records_end_offset:  # a gap at the end of the segment
                at = run.content.end_offset
                continue
            try:
                records = run.read(at, max_bytes, min_one_batch)
            except (OSError, CorruptFile):  # somebody removed the file, or the disk fails: read it again
                self.runs.remove(run)
                continue
            if not isinstance(records, FetchSlice):
                return RemoteRecords(records, at, [] if with_aborted else None)
            self._read_ahead(remote_log, log, segment, run, records)
            end_offset = run.offset_after(records)
            if not with_aborted:
                return RemoteRecords(records, end_offset)
            walk = self._walk(remote_log, log, run)
            if walk is not None:
                return walk
            return RemoteRecords(records, end_offset, overlapping(run, log, offset, end_offset))
        part = log.read(at, max_bytes, log.last_stable_offset if with_aborted else log.high_watermark, min_one_batch)
        if not with_aborted or not isinstance(part, FetchSlice):
            return RemoteRecords(part, at, [] if with_aborted else None)
        return RemoteRecords(part, at, log.aborted_transactions(at, fetch_upper_bound(log, at, part)))

    def _walk(self, remote_log: RemoteLog, log: PartitionLog, run: Run) -> Deferred[None] | None:
        """Return what to wait for until the aborted transactions of a run are known; None if they are."""
        aborted = run.aborted
        if aborted.is_complete or aborted.walked_to >= log.local_start_offset:
            return None
        if aborted.walk is None or aborted.walk.done:
            segments_from = bound(self.segments_from, remote_log, log)
            walk = AbortedWalk(self.indexes, self.downloads, run, remote_log, log, segments_from)
            aborted.walk = walk.start()
        return aborted.walk

    def _read_ahead(
        self, remote_log: RemoteLog, log: PartitionLog, segment: RemoteSegment, run: Run, records: FetchSlice
    ) -> None:
        """Request the next run when a reader has passed the middle of one."""
        content = run.content
        if run.is_read_ahead or 2 * (records.position + records.size) < content.size_bytes:
            return
        run.is_read_ahead = True
        offset = content.end_offset
        position: int | None = content.end_position
        if offset > segment.end_offset:
            following = next(self.segments_from(remote_log, log, offset), None)
            if following is None:
                return
            segment, position = following, None
        if self.runs.find(segment.id, offset) is None:
            self.downloads.start(Wanted(remote_log.partition, segment, offset, position))

    # -- times -------------------------------------------------------------------------------------------------------

    def find_timestamp(
        self, partition: Partition, timestamp: int, allowance: Allowance, deadline_ms: int
    ) -> Generator[Any, Any, TimestampAndOffset | None]:
        look_up = TimeLookUp(self, self._timers, self._clock, partition, timestamp, allowance, deadline_ms)
        return look_up.steps()
