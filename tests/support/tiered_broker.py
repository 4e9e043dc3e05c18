"""A broker of the data plane whose first segments are in remote storage alone, in a directory of the test."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from broker.replicas.fetch_attempt import FetchAttempt
from broker.replicas.partition import Partition
from broker.tiering.counts import TierCounts
from broker.tiering.rate_quota import RateQuota
from broker.tiering.reading.reader import RemoteReader
from broker.tiering.reading.tiered_fetch import tiered
from broker.tiering.remote_logs import RemoteLogs
from remote.directory_store import DirectoryStore
from remote.layout import Layout
from remote.local_tiered_layout import LocalTieredLayout
from remote.segment_files import IndexKind, SegmentFiles
from remote.store import Source
from runtime.deferred import Deferred
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from tests.support.data_broker import DataBroker
from tests.unit.tiered.copies import FINISHED, id_of
from tiered.lineage import clamped
from tiered.metadata_records import TopicIdPartition
from tiered.segment import RemoteSegment, SegmentUpdate

DEFAULTS: dict[str, Any] = {
    "remote.fetch.max.wait.ms": 500,
    "remote.list.offsets.request.timeout.ms": 30_000,
    "remote.log.index.file.cache.total.size.bytes": 1 << 30,
    "remote.log.index.file.cache.ttl.ms": 900_000,
    "remote.log.reader.max.pending.tasks": 100,
    "remote.log.reader.threads": 10,
    "pybroker.remote.cache.bytes": 1 << 30,
}


def tiered_config(**values: object) -> LogConfig:
    """Return the configuration of a tiered topic with small segments."""
    tier = {"remote_storage_system": True, "remote_storage_enable": True, "retention_ms": -1}
    return LogConfig(**{"segment_bytes": 1300, "index_interval_bytes": 400, **tier, **values})  # type: ignore[arg-type]


class Threads:
    """A pool that makes calls at once, or on `release` while it is `held`."""

    def __init__(self) -> None:
        self.held = False
        self.waiting: list[Callable[[], None]] = []
        self.calls = 0

    def __call__(self, function: Callable[..., Any], *args: Any) -> Deferred[Any]:
        done: Deferred[Any] = Deferred()

        def run() -> None:
            self.calls += 1
            try:
                value = function(*args)
            except Exception as error:
                done.fail(error)
            else:
                done.resolve(value)

        if self.held:
            self.waiting.append(run)
        else:
            run()
        return done

    def release(self, count: int = 1 << 30) -> None:
        """Make the calls that wait, and those that follow from them."""
        while self.waiting and count > 0:
            count -= 1
            self.waiting.pop(0)()


class WatchedLayout:
    """A layout that notes each read. It raises `failure` instead, if there is one."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.reads: list[tuple[int, int, int]] = []
        self.failure: Exception | None = None
        self.index_failure: Exception | None = None
        #: Changes the bytes that were read.
        self.change: Callable[[bytes], bytes] = lambda data: data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layout, name)

    def read(self, partition: TopicIdPartition, segment: RemoteSegment, start: int, size_bytes: int) -> bytes:
        self.reads.append((segment.start_offset, start, size_bytes))
        if self.failure is not None:
            raise self.failure
        return self.change(self._layout.read(partition, segment, start, size_bytes))

    def read_index(self, partition: TopicIdPartition, segment: RemoteSegment, kind: IndexKind) -> bytes | None:
        if self.index_failure is not None:
            raise self.index_failure
        return self._layout.read_index(partition, segment, kind)


class Tiering:
    """The tier of a double of a broker. `tier(partition)` copies closed segments, and removes them from its log."""

    def give_tier(self: Any, directory: Path) -> None:
        """Create remote storage in the directory of the broker, and the parts that read it."""
        self.remote_directory = directory / "remote"
        self.layout = WatchedLayout(LocalTieredLayout(DirectoryStore(str(self.remote_directory))))
        self.threads = Threads()
        self.quota = RateQuota((1 << 63) - 1, 11, 1000)
        self.counts = TierCounts()
        self.is_loaded = True
        self.remote_logs = RemoteLogs(self.partitions.topic_name, lambda _: self.is_loaded)
        self.remote_reads = self.reader = RemoteReader(
            self.config,
            self.clock,
            self.timers,
            self.threads,
            self.quota,
            self.counts,
            self.remote_logs,
            self.layout,
            str(directory / "data0"),
        )
        self.fetch_attempt = tiered(FetchAttempt, self.reader)
        self._copies = 0

    def tier(self: Any, partition: Partition, *, keep: int = 1) -> None:
        """Copy all segments but the last `keep` ones, and remove them from the local log."""
        log = partition.log
        named = TopicIdPartition(partition.topic_id, partition.topic, partition.index)
        remote_log = self.remote_logs.get(partition.topic_id, partition.index)
        segments = list(log.segments)
        for segment, following in pairwise(segments[: len(segments) - keep + 1]):
            segment.become_inactive()
            self._copies += 1
            epochs = clamped(log.leader_epochs.entries, segment.base_offset, following.base_offset)
            copy = RemoteSegment(
                id=id_of(100 * partition.index + self._copies),
                start_offset=segment.base_offset,
                end_offset=following.base_offset - 1,
                max_timestamp_ms=segment.largest.timestamp,
                event_timestamp_ms=1,
                broker_id=1,
                size_bytes=segment.size_bytes,
                epochs=epochs,
            )
            self.layout.copy(named, copy, _files(log, segment))
            remote_log.segments.add(copy)
            remote_log.segments.update(SegmentUpdate(copy.id, FINISHED, 2, 1))
        log.copied_offset = segments[-keep].base_offset - 1
        log.local_start_offset = segments[-keep].base_offset
        log.drop_segments(segments[:-keep])


class TieredBroker(Tiering, DataBroker):
    """A broker of the data plane with a tier."""

    remote_directory: Path
    layout: WatchedLayout
    threads: Threads
    quota: RateQuota
    counts: TierCounts
    is_loaded: bool
    remote_logs: RemoteLogs
    reader: RemoteReader

    def __init__(self, directory: Path, settings: dict[str, Any] | None = None) -> None:
        super().__init__(directory, {**DEFAULTS, **(settings or {})})
        self.give_tier(directory)


def _files(log: PartitionLog, segment: Any) -> SegmentFiles:
    def content(suffix: str, entry_bytes: int = 1, entries: int | None = None) -> bytes:
        path = Path(log.path, f"{segment.base_offset:020}.{suffix}")
        data = path.read_bytes() if path.exists() else b""
        return data if entries is None else data[: entry_bytes * entries]

    return SegmentFiles(
        Source(segment.log.path, segment.size_bytes),
        content("index", 8, segment.offset_index.entries),
        content("timeindex", 12, segment.time_index.entries),
        b"",
        b"",
        content("txnindex") or None,
    )
