"""When a snapshot of the metadata is written, and which files it makes superfluous (KIP-630).

A snapshot is due after metadata.log.max.record.bytes.between.snapshots of new records, or, if there are new records,
metadata.log.max.snapshot.interval.ms after the last one. Each start and each clean stop write a record per partition.
So a clean stop writes a snapshot if the next start would otherwise have to read much; and so does a start that had to
read much, because the broker had crashed before. metadata.max.retention.bytes and metadata.max.retention.ms limit old
snapshots and the segments that the oldest snapshot does not need. The newest snapshot is always kept. Files are written
and removed off the loop, one snapshot at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

import msgspec

from config import BrokerConfig
from controller.metadata_log import MetadataLog
from controller.metadata_snapshot import (
    SnapshotId,
    last_contained_ms,
    snapshots_in,
    write_snapshot,
)
from metadata.image import MetadataImage
from runtime.deferred import Deferred
from runtime.thread_pool import ThreadPool
from storage.errors import CorruptFile
from storage.fs import FileSystem
from storage.log.partition_log import PartitionLog
from storage.log.retention import expired_segments, remove_segments
from storage.log.tasks import FlushTask

log = logging.getLogger(__name__)

#: Some 50,000 records, which take a start half a second.
LONG_START_BYTES = 3 << 20
#: A tenth of that. While no client is served, writing a snapshot costs less than reading the records that it replaces.
LONG_STOP_BYTES = 300 << 10


class Limits(msgspec.Struct, frozen=True):
    """The limits of the age of snapshots, and of their size with the log, which has `log_bytes`; -1: no limit."""

    retention_ms: int
    retention_bytes: int
    log_bytes: int

    def excess_count(self, ages_ms: list[int], sizes: list[int]) -> int:
        """Return how many of the oldest snapshots to delete, by their ages and sizes; never the last one."""
        total = sum(sizes) + self.log_bytes
        count = 0
        while count < len(sizes) - 1 and (0 <= self.retention_ms < ages_ms[count] or 0 <= self.retention_bytes < total):
            total -= sizes[count]
            count += 1
        return count


class SnapshottedLog(Protocol):
    """A metadata log of which snapshots are written: that of a controller, or a member's copy."""

    @property
    def partition_log(self) -> PartitionLog: ...

    @property
    def path(self) -> str: ...

    @property
    def bytes_since_snapshot(self) -> int:
        """The bytes that were read or appended since the newest snapshot."""

    @property
    def may_be_covered(self) -> bool:
        """Whether a snapshot of the image may be written now: a power failure would not lose what it covers."""

    def prepare_snapshot(self, image: MetadataImage, now_ms: int) -> tuple[SnapshotId, bytes] | None:
        """Return a snapshot of the image, which is that of the log; None if the last snapshot is as new."""


class MetadataRetention:
    """Used on the event loop's thread. Call `check` whenever the log was synced, or a member has applied records."""

    def __init__(
        self,
        metadata_log: SnapshottedLog,
        image: MetadataImage,
        config: BrokerConfig,
        offload: ThreadPool,
        now_ms: Callable[[], int],
    ) -> None:
        self._log = metadata_log
        self._image = image
        self._config = config
        self._offload = offload
        self._now_ms = now_ms
        self._last_ms = now_ms()
        self._running = False
        #: The offset of the first record that a reader in this process still needs; None: there is no such reader.
        self.first_needed: Callable[[], int] | None = None
        #: Whether this start had to read too much, so that a new snapshot is due.
        self._long_start = metadata_log.bytes_since_snapshot >= LONG_START_BYTES

    def check(self) -> None:
        """Write a snapshot if one is due and all records that it covers are on the disk.

        Records that were appended meanwhile may not be. After a power failure, a snapshot beyond the end of the log is
        ignored, and earlier ones may be deleted already.
        """
        now_ms = self._now_ms()
        partition_log = self._log.partition_log
        if self._running or not self._is_due(now_ms) or not self._log.may_be_covered:
            return
        self._last_ms = now_ms
        self._long_start = False
        prepared = self._log.prepare_snapshot(self._image, now_ms)
        if prepared is None:
            return
        self._running = True
        snapshot_id, data = prepared
        fs, path = partition_log.directory.fs, self._log.path
        limits = _limits(self._config, partition_log)
        written = self._offload(_write_and_choose, fs, path, snapshot_id, data, limits, now_ms)
        written.add_done_callback(self._finish)

    def _is_due(self, now_ms: int) -> bool:
        new_bytes = self._log.bytes_since_snapshot
        interval_ms = self._config.get_int("metadata.log.max.snapshot.interval.ms")
        return (
            self._long_start
            or new_bytes >= self._config.get_int("metadata.log.max.record.bytes.between.snapshots")
            or (new_bytes > 0 and 0 < interval_ms <= now_ms - self._last_ms)
        )

    def _finish(self, written: Deferred[SnapshotId]) -> None:
        self._running = False
        partition_log = self._log.partition_log
        try:
            oldest = written.result()
            start = oldest.end_offset if self.first_needed is None else min(oldest.end_offset, self.first_needed())
            paths = _begin_log_at(partition_log, start, self._now_ms())
        except OSError as error:
            log.warning("Cannot write a snapshot of the metadata: %s", error)
            partition_log.directory.fail(error)
            return
        log.info("Wrote a snapshot of the metadata; the log is kept from offset %d on", start)
        if paths:
            self._offload(_remove, partition_log.directory.fs, paths)


def write_last_snapshot(metadata_log: MetadataLog, image: MetadataImage, config: BrokerConfig, now_ms: int) -> None:
    """Write a snapshot at a clean stop, if the next start would have to read much without it.

    Raises LogOffline, OSError.
    """
    if metadata_log.bytes_since_snapshot < LONG_STOP_BYTES:
        return
    partition_log = metadata_log.partition_log
    # it must not cover records that a power failure would lose
    forced = FlushTask(partition_log, now_ms, with_active=True)
    forced.run()
    forced.apply()
    forced.check()
    prepared = metadata_log.prepare_snapshot(image, now_ms)
    assert prepared is not None
    fs = partition_log.directory.fs
    oldest = _write_and_choose(fs, metadata_log.path, *prepared, _limits(config, partition_log), now_ms)
    _remove(fs, _begin_log_at(partition_log, oldest.end_offset, now_ms))


def _limits(config: BrokerConfig, partition_log: PartitionLog) -> Limits:
    return Limits(
        config.get_int("metadata.max.retention.ms"),
        config.get_int("metadata.max.retention.bytes"),
        partition_log.size_bytes,
    )


def _begin_log_at(partition_log: PartitionLog, offset: int, now_ms: int) -> list[str]:
    """Remove the segments below an offset, which a snapshot covers, from the log, and return their files."""
    partition_log.raise_log_start(min(offset, partition_log.log_end_offset))
    return remove_segments(partition_log, expired_segments(partition_log, now_ms), now_ms)


def _write_and_choose(
    fs: FileSystem,
    path: str,
    snapshot_id: SnapshotId,
    data: bytes,
    limits: Limits,
    now_ms: int,
) -> SnapshotId:
    """Write a snapshot and delete superfluous ones. Return the oldest that is left."""
    write_snapshot(fs, path, snapshot_id, data)
    found = snapshots_in(fs, path)
    sizes = {entry.name: entry.size_bytes for entry in fs.list(path)}
    ages_ms = [now_ms - _time_of(fs, f"{path}/{each.file_name}") for each in found]
    count = limits.excess_count(ages_ms, [sizes[each.file_name] for each in found])
    _remove(fs, [f"{path}/{each.file_name}" for each in found[:count]])
    return found[count]


def _time_of(fs: FileSystem, path: str) -> int:
    """Return the time of the last record in a snapshot; an unreadable one counts as the oldest."""
    try:
        return last_contained_ms(fs, path)
    except CorruptFile:
        return 0


def _remove(fs: FileSystem, paths: list[str]) -> None:
    for path in paths:
        fs.remove(path)
