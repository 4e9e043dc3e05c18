"""The metadata log, `__cluster_metadata-0`: a partition log whose leader is this node, the only voter of the quorum.

Loading begins with the newest usable snapshot, and continues with the batches after it. The snapshot that formatting
writes covers no record of the log: the first leader appends its records (KIP-1170, formatting.py). A start begins the
next leader epoch: it writes quorum-state first and then a LeaderChange record, so that no epoch is used twice. Offsets
are the log's, and the epoch of a batch is the leader's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from controller.metadata_snapshot import (
    Quorum,
    SnapshotId,
    build_snapshot,
    metadata_batch,
    read_snapshot,
    snapshots_in,
)
from controller.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from metadata.bulk_records import Changes
from metadata.image import MetadataImage
from metadata.loading import MetadataLoader
from metadata.replay import ReplayError
from metadata.snapshot import image_records
from protocol.error_codes import ProtocolError
from protocol.messages.data import LeaderChangeMessage
from protocol.messages.data.control_records import LeaderChangeMessageVoter
from protocol.records.batch import iter_batches
from protocol.records.control import ControlType, build_control_batch, control_type
from protocol.records.errors import RecordsError
from protocol.records.record import iter_batch_records
from runtime.deferred import Deferred
from runtime.thread_pool import ThreadPool
from storage.append.header_validation import AppendOrigin
from storage.errors import CorruptFile, LogOffline
from storage.log.partition_log import PartitionLog
from storage.log.tasks import FlushTask

log = logging.getLogger(__name__)

TOPIC = "__cluster_metadata"
TOPIC_ID = bytes(15) + b"\x01"
READ_BYTES = 1 << 20
#: How long a sync waits for a file descriptor before it is retried.
_RETRY_MS = 100


class MetadataLogDamaged(Exception):
    """The metadata log is inconsistent. The message is one line for operators."""


class MetadataLog:
    """`epoch` is the current leader epoch, or that of the last leader until this node leads."""

    def __init__(self, partition_log: PartitionLog) -> None:
        self.partition_log = partition_log
        self.epoch = 0
        self.quorum = Quorum()
        self.last_timestamp_ms = 0
        self._fs = partition_log.directory.fs
        self._state_version: int | None = None
        self._static_voters: tuple[int, ...] = ()
        self._snapshot_offset = 0
        self._bytes_since_snapshot = 0

    @property
    def path(self) -> str:
        return self.partition_log.path

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self.partition_log.log_end_offset

    @property
    def bytes_since_snapshot(self) -> int:
        """The bytes that were read or appended since the newest snapshot."""
        return self._bytes_since_snapshot

    @property
    def may_be_covered(self) -> bool:
        """Whether all records are on the disk. A snapshot beyond the end of the log would be ignored."""
        return self.partition_log.directory.is_online and self.partition_log.recovery_point == self.end_offset

    @property
    def voters(self) -> tuple[int, ...]:
        """The voters of the quorum, if the directory names them: under kraft.version 0 it may not."""
        if self.quorum.voters is not None:
            return tuple(voter.voter_id for voter in self.quorum.voters.voters)
        return self._static_voters

    # ---- reading

    def load(self) -> MetadataLoader:
        """Load the whole log. Raises MetadataLogDamaged, and the storage's errors."""
        loader = MetadataLoader()
        offset = self._load_snapshot(loader)
        try:
            while offset < self.end_offset:
                offset, before = self._load_some(loader, offset), offset
                if offset <= before:
                    raise ReplayError("a batch is missing")
        except (ProtocolError, RecordsError, ReplayError) as error:
            raise MetadataLogDamaged(
                f"{self.path}: the metadata log is damaged after offset {offset}: {error}"
            ) from error
        self._load_quorum_state()
        return loader

    def _load_snapshot(self, loader: MetadataLoader) -> int:
        """Load the newest usable snapshot, if there is one, and return the offset from which to read the log."""
        start = self.partition_log.log_start_offset
        for snapshot_id in reversed(snapshots_in(self._fs, self.path)):
            if not start <= snapshot_id.end_offset <= self.end_offset:
                continue
            try:
                snapshot = read_snapshot(self._fs, f"{self.path}/{snapshot_id.file_name}")
                for value in snapshot.values if snapshot_id.end_offset else ():
                    loader.feed_value(value)
            except (CorruptFile, ProtocolError, RecordsError, ReplayError) as error:
                log.warning("Ignoring a snapshot of the metadata log: %s", error)
                loader.image = MetadataImage()
                continue
            self.quorum = snapshot.quorum
            self.epoch = snapshot_id.epoch
            self._snapshot_offset = snapshot_id.end_offset
            return snapshot_id.end_offset
        if start > 0:
            raise MetadataLogDamaged(f"{self.path}: the log begins at offset {start}, and no snapshot reaches it")
        return 0

    def _load_some(self, loader: MetadataLoader, offset: int) -> int:
        part = self.partition_log.read(offset, READ_BYTES, self.end_offset)
        data = part if isinstance(part, bytes) else part.read()
        for position, header in iter_batches(data):
            self.epoch = max(self.epoch, header.leader_epoch)
            self.last_timestamp_ms = header.max_timestamp
            for record in iter_batch_records(memoryview(data)[position : position + header.size_bytes], header):
                if record.offset < offset or record.value is None:
                    continue
                if header.is_control:
                    self.quorum.take(control_type(record), record.value)
                else:
                    loader.feed_value(record.value)
            offset = header.next_offset
        self._bytes_since_snapshot += len(data)
        return offset

    def _load_quorum_state(self) -> None:
        try:
            state = read_quorum_state(self._fs, self.path)
        except CorruptFile as error:
            log.warning("Using the leader epoch in the metadata log: %s", error)
            return
        if state is not None:
            self.epoch = max(self.epoch, state.leader_epoch)
            self._state_version = state.version
            self._static_voters = state.voters or ()

    # ---- writing

    def become_leader(self, node_id: int, now_ms: int) -> None:
        """Begin the next leader epoch. Raises the storage's errors."""
        version = 1 if self.quorum.kraft_version else self._state_version or 0
        state = QuorumState(version, leader_epoch=self.epoch).elected(node_id)
        write_quorum_state(self._fs, self.path, state)
        self.epoch = state.leader_epoch
        voter = [LeaderChangeMessageVoter(voter_id=node_id)]
        change = LeaderChangeMessage(leader_id=node_id, voters=voter, granting_voters=voter)
        records = [(ControlType.LEADER_CHANGE, LeaderChangeMessage.encode(0, change))]
        if self.end_offset == 0:  # the log gets the voters with which its directory was formatted
            records += self.quorum.control_records()
        self._append(build_control_batch(records, now_ms), now_ms)

    def begin_quorum(self, quorum: Quorum, now_ms: int) -> None:
        """Write the kraft.version and the voters into the log. After an error of the storage nothing is written."""
        self._append(build_control_batch(quorum.control_records(), now_ms), now_ms)
        self.quorum = quorum

    def name_voters(self, quorum: Quorum, now_ms: int) -> None:
        """Write the voters into a log whose kraft.version names them (KIP-853). Raises the storage's errors."""
        records = [each for each in quorum.control_records() if each[0] is ControlType.KRAFT_VOTERS]
        self._append(build_control_batch(records, now_ms), now_ms)
        self.quorum = quorum

    def append(self, records: Sequence[Changes], now_ms: int) -> int:
        """Append records as one batch, and return the offset of the first.

        After an error of the storage nothing is written.
        """
        offset = self.end_offset
        self._append(metadata_batch(records, now_ms), now_ms)
        return offset

    def _append(self, batch: bytes, now_ms: int) -> None:
        origin = AppendOrigin.COORDINATOR
        self.partition_log.append(batch, leader_epoch=self.epoch, now_ms=now_ms, origin=origin)
        self.last_timestamp_ms = now_ms
        self._bytes_since_snapshot += len(batch)

    def sync(
        self, offload: ThreadPool, now_ms: int, call_later: Callable[[int, Callable[[], None]], object]
    ) -> Deferred[None]:
        """Sync all that is written now to the disk, off the loop. Fails with LogOffline.

        A failed sync is not retried. One that had no file descriptor is, by `call_later(ms, call)`.
        """
        return _Sync(self.partition_log, offload, now_ms, call_later).begin()

    def prepare_snapshot(self, image: MetadataImage, now_ms: int) -> tuple[SnapshotId, bytes] | None:
        """Return a snapshot of the image, which is the state of the whole log; None if the last snapshot is as new."""
        if self.end_offset == self._snapshot_offset:
            return None
        snapshot_id = SnapshotId(self.end_offset, self.epoch)
        data = build_snapshot(
            image_records(image),
            now_ms,
            epoch=self.epoch,
            last_contained_ms=self.last_timestamp_ms,
            quorum=self.quorum,
        )
        self._snapshot_offset, self._bytes_since_snapshot = snapshot_id.end_offset, 0
        return snapshot_id, data


class _Sync:
    """A request to sync the log to the disk."""

    def __init__(
        self,
        partition_log: PartitionLog,
        offload: ThreadPool,
        now_ms: int,
        call_later: Callable[[int, Callable[[], None]], object],
    ) -> None:
        self._log = partition_log
        self._offload = offload
        self._now_ms = now_ms
        self._call_later = call_later
        self._synced: Deferred[None] = Deferred()
        self._is_reported = False

    def begin(self) -> Deferred[None]:
        """Return a Deferred that resolves when it is synced, or fails."""
        self._try()
        return self._synced

    def _try(self) -> None:
        task = FlushTask(self._log, self._now_ms, with_active=True)
        self._offload(task.run).add_done_callback(lambda _: self._finish(task))

    def _finish(self, task: FlushTask) -> None:
        task.apply()
        if task.error is not None and task.directory.is_online and not task.log.closed:
            if not self._is_reported:
                log.warning("The sync of the metadata log waits for a file descriptor: %s", task.error)
            self._is_reported = True
            self._call_later(_RETRY_MS, self._try)
            return
        try:
            task.check()
        except LogOffline as error:
            self._synced.fail(error)
        else:
            self._synced.resolve(None)
