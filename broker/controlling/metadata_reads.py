"""Reads of the metadata log by observers: the leader's side of KIP-595 and KIP-630.

The high watermark is the synced end of the log, because this controller is the only voter. Observers get only what is
below it, so the log never takes back what one of them has.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from controller.metadata_log import MetadataLog
from controller.metadata_snapshot import SnapshotId, snapshots_in
from protocol.records.batch import iter_batches
from runtime.deferred import Deferred
from runtime.timers import Timer, Timers
from storage.log.leader_epoch import EpochEntry

#: A read of more bytes is not kept in memory: it is that of an observer which has just started.
_SHARED_BYTES = 1 << 20


class Position(NamedTuple):
    """The end of an observer's log, and the epoch of its last record."""

    offset: int
    epoch: int


class Diverging(NamedTuple):
    """The observer's log differs from this one.

    `end` is the largest epoch that both may have, and its end offset here.
    """

    end: EpochEntry


class SnapshotPart(NamedTuple):
    """Bytes of a snapshot whose file has `size` bytes."""

    size: int
    data: bytes


class _Waiting(NamedTuple):
    offset: int
    deferred: Deferred[None]
    timer: Timer


class MetadataReads:
    """The committed part of the log. The controller syncs what it appends; the service calls `advance` afterwards."""

    def __init__(self, metadata_log: MetadataLog, timers: Timers) -> None:
        self._log = metadata_log
        self._timers = timers
        self._waiting: dict[int, _Waiting] = {}
        self._next = 0
        #: The last read. A change of the metadata wakes all observers, and most of them are at the same offset.
        self._last_wanted: tuple[int, int, int] | None = None
        self._last_read = b""

    @property
    def epoch(self) -> int:
        """The leader epoch."""
        return self._log.epoch

    @property
    def start_offset(self) -> int:
        return self._log.partition_log.log_start_offset

    @property
    def high_watermark(self) -> int:
        """The end of what is on the disk."""
        partition_log = self._log.partition_log
        return min(partition_log.recovery_point, partition_log.log_end_offset)

    # -- waiting -----------------------------------------------------------------------------------------------------

    def when_beyond(self, offset: int, most_ms: int) -> Deferred[None]:
        """Resolve when the high watermark is above an offset, or after `most_ms`."""
        if self.high_watermark > offset or most_ms <= 0:
            return Deferred.resolved(None)
        deferred: Deferred[None] = Deferred()
        number, self._next = self._next, self._next + 1

        def end() -> None:
            self._end(number)

        self._waiting[number] = _Waiting(offset, deferred, self._timers.call_later(most_ms, end))
        deferred.on_cancel(end)
        return deferred

    def advance(self) -> None:
        """End the waits for records that are on the disk now."""
        high_watermark = self.high_watermark
        for number in [number for number, each in self._waiting.items() if each.offset < high_watermark]:
            self._end(number)

    def close(self) -> None:
        """End all waits."""
        for number in list(self._waiting):
            self._end(number)

    def _end(self, number: int) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is not None:
            waiting.timer.cancel()
            if not waiting.deferred.done:
                waiting.deferred.resolve(None)

    # -- reading -----------------------------------------------------------------------------------------------------

    def check(self, position: Position) -> SnapshotId | Diverging | None:
        """Return None if the log continues at a position, else the snapshot to fetch, or where both diverge.

        Kafka's ReplicatedLog.validateOffsetAndEpoch. An empty observer gets the newest snapshot, if there is one,
        though the log may begin at 0.
        """
        partition_log = self._log.partition_log
        start = partition_log.log_start_offset
        is_of_latest_epoch = position.epoch == partition_log.leader_epochs.latest
        if is_of_latest_epoch and start < position.offset <= partition_log.log_end_offset:
            return None  # most fetches: nothing below says otherwise, and the directory need not be listed
        snapshots = self._snapshots()
        if position.offset == 0 and snapshots:
            return snapshots[-1]
        if start == 0 and position == (0, 0):
            return None
        if snapshots:
            oldest = snapshots[0]
            is_too_old = (
                position.offset < start
                or (position.offset == start != 0 and position.epoch != oldest.epoch)
                or position.epoch < oldest.epoch
            )
            if is_too_old:
                return snapshots[-1]
            if position == (oldest.end_offset, oldest.epoch):
                return None  # what it was made of may be gone from the log
        end = partition_log.end_offset_for_epoch(position.epoch)
        if end.epoch < 0:  # an epoch that this log never had
            latest = partition_log.leader_epochs.latest
            end = EpochEntry(self.epoch if latest is None else latest, partition_log.log_end_offset)
        epoch, end_offset = end
        if epoch != position.epoch or end_offset < position.offset:
            return Diverging(end)
        return None

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole committed batches from an offset on, at least one if there is one. Raises LogOffline."""
        high_watermark = self.high_watermark
        if not self.start_offset <= offset < high_watermark:
            return b""
        wanted = offset, max_bytes, high_watermark
        if wanted != self._last_wanted:
            data = self._read(offset, max_bytes, high_watermark)
            if len(data) > _SHARED_BYTES:
                return data
            self._last_wanted, self._last_read = wanted, data
        return self._last_read

    def _read(self, offset: int, max_bytes: int, high_watermark: int) -> bytes:
        part = self._log.partition_log.read(offset, max(max_bytes, 1), high_watermark)
        data = part if isinstance(part, bytes) else part.read()
        end = 0
        for position, header in iter_batches(data):
            end = position + header.size_bytes
        return data[:end]

    def read_snapshot(self, snapshot_id: SnapshotId, position: int, most_bytes: int) -> SnapshotPart | None:
        """Return a part of a snapshot; None if there is none of this id. Blocks. Raises OSError."""
        if snapshot_id not in self._snapshots():
            return None
        fs = self._log.partition_log.directory.fs
        try:
            with fs.reading(f"{self._log.path}/{snapshot_id.file_name}") as handle:
                size = fs.size(handle)
                buffer = bytearray(min(most_bytes, max(size - max(position, 0), 0)))
                count = fs.read_into(handle, buffer, max(position, 0)) if buffer else 0
        except FileNotFoundError:  # retention has just removed it
            return None
        return SnapshotPart(size, bytes(buffer[:count]))

    def _snapshots(self) -> list[SnapshotId]:
        """Return the snapshots that cover records, oldest first."""
        with suppress(OSError):
            found = snapshots_in(self._log.partition_log.directory.fs, self._log.path)
            return [each for each in found if each.end_offset > 0]
        return []
