"""The metadata log of a member: a copy of the controllers' log, of which only the committed part is applied.

Records are appended as the leader sends them. After a restart the first response of the leader has the high watermark;
until then the image is that of the newest snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import NamedTuple

from controller.metadata_log import READ_BYTES
from controller.metadata_snapshot import (
    Quorum,
    Snapshot,
    SnapshotId,
    parse_snapshot,
    read_snapshot,
    snapshots_in,
    write_snapshot,
)
from controller.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from protocol.error_codes import ProtocolError
from protocol.records.batch import iter_batches
from protocol.records.control import control_type
from protocol.records.errors import RecordsError
from protocol.records.record import iter_batch_records
from replication.followed_log import DamagedRecords, EpochEnd
from runtime.log_limit import LimitedLog
from storage.errors import AppendRefused, CorruptFile
from storage.log.partition_log import PartitionLog
from storage.log.truncation import empty_log, truncate_log

log = logging.getLogger(__name__)


class CommittedRecord(NamedTuple):
    """A record of the log; `value` is None for a control record, which `quorum` has taken over."""

    offset: int
    epoch: int
    timestamp_ms: int
    value: bytes | None


class ObservedMetadataLog:
    """The log that `replication.observing` writes. `quorum` has the voters as far as records were read.

    `snapshot_id` is the newest snapshot; (0, 0) without one. `on_snapshot` is called with each that the leader sends.
    `bytes_since_snapshot` counts what was read since then. `static_voters` are those of controller.quorum.voters.
    """

    def __init__(
        self, partition_log: PartitionLog, now_ms: Callable[[], int], static_voters: Collection[int] = ()
    ) -> None:
        self.partition_log = partition_log
        self._static_voters = tuple(sorted(static_voters))
        self.quorum = Quorum()
        self.snapshot_id = SnapshotId(0, 0)
        self.bytes_since_snapshot = 0
        self.on_snapshot: Callable[[Snapshot, int], None] = lambda snapshot, end_offset: None
        self._now_ms = now_ms
        self._damage_log = LimitedLog(log, lines=1, seconds=30)  # the same records are fetched again
        self._stored_leader: tuple[int, int] | None = None
        self._fs = partition_log.directory.fs

    # -- ObservedLog -------------------------------------------------------------------------------------------------

    @property
    def log_end_offset(self) -> int:
        return self.partition_log.log_end_offset

    @property
    def latest_epoch(self) -> int:
        latest = self.partition_log.leader_epochs.latest
        return self.snapshot_id.epoch if latest is None else latest

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        return EpochEnd(*self.partition_log.end_offset_for_epoch(epoch))

    def append(self, records: memoryview) -> None:
        try:
            self.partition_log.append_replicated(records, now_ms=self._now_ms())
        except AppendRefused as error:
            self._damage_log.warning("The controller sent metadata that cannot be appended: %s", error)
            raise DamagedRecords from error

    def truncate(self, offset: int) -> None:
        log.info("Truncating the metadata log to offset %d, where it diverges from the leader's", offset)
        self._remove(truncate_log(self.partition_log, offset, self._now_ms()))

    def install(self, end_offset: int, epoch: int, snapshot: bytes) -> None:
        snapshot_id = SnapshotId(end_offset, epoch)
        path = self.partition_log.path
        try:
            parsed = parse_snapshot(snapshot, f"{path}/{snapshot_id.file_name}")
        except (CorruptFile, ProtocolError, RecordsError) as error:
            self._damage_log.warning("The controller sent a damaged snapshot: %s", error)
            raise DamagedRecords from error
        former = [each for each in snapshots_in(self._fs, path) if each < snapshot_id]
        write_snapshot(self._fs, path, snapshot_id, snapshot)
        self._remove(empty_log(self.partition_log, end_offset, self._now_ms()))
        self._remove([f"{path}/{each.file_name}" for each in former])
        self._use(parsed, snapshot_id)
        self.on_snapshot(parsed, end_offset)

    def _remove(self, paths: list[str]) -> None:
        for path in paths:
            self._fs.remove(path)

    def store_leader(self, leader_id: int, epoch: int) -> None:
        """Write the file quorum-state, as observers of Apache Kafka do. It may start on this directory.

        Where the log does not name the voters (kraft.version 0), the file has those of the configuration. Raises
        OSError.
        """
        if (leader_id, epoch) == self._stored_leader:
            return
        if self.quorum.kraft_version:
            state = QuorumState(1, leader_id, epoch)
        else:
            state = QuorumState(0, leader_id, epoch, self._static_voters)
        write_quorum_state(self._fs, self.partition_log.path, state)
        self._stored_leader = leader_id, epoch

    def last_leader_epoch(self) -> int:
        """Return the leader epoch that the file and the log know. A leader of an earlier one is not followed.

        Apache Kafka ends at a damaged file. Here the log is enough, as it is without the file.
        """
        try:
            stored = read_quorum_state(self._fs, self.partition_log.path)
        except (CorruptFile, OSError) as error:
            log.warning("The leader epoch is taken from the metadata log: %s", error)
            stored = None
        return max(self.latest_epoch, stored.leader_epoch if stored is not None else 0)

    # -- reading -----------------------------------------------------------------------------------------------------

    def newest_snapshot(self) -> Snapshot | None:
        """Return the newest snapshot that is not damaged and that the log continues; None: begin at offset 0."""
        path = self.partition_log.path
        for snapshot_id in reversed(snapshots_in(self._fs, path)):
            if not self.partition_log.log_start_offset <= snapshot_id.end_offset <= self.log_end_offset:
                continue
            with suppress(CorruptFile, ProtocolError, RecordsError):
                snapshot = read_snapshot(self._fs, f"{path}/{snapshot_id.file_name}")
                self._use(snapshot, snapshot_id)
                return snapshot
        return None

    def _use(self, snapshot: Snapshot, snapshot_id: SnapshotId) -> None:
        self.snapshot_id, self.quorum = snapshot_id, snapshot.quorum
        self.bytes_since_snapshot = 0

    def read(self, offset: int, end_offset: int) -> Iterator[CommittedRecord]:
        """Yield the records from `offset` to below `end_offset`. Raises ProtocolError, RecordsError, LogOffline."""
        while offset < end_offset:
            part = self.partition_log.read(offset, READ_BYTES, end_offset)
            data = part if isinstance(part, bytes) else part.read()
            self.bytes_since_snapshot += len(data)
            before = offset
            for position, header in iter_batches(data):
                for record in iter_batch_records(memoryview(data)[position : position + header.size_bytes], header):
                    if not offset <= record.offset < end_offset or record.value is None:
                        continue
                    value = record.value
                    if header.is_control:
                        self.quorum.take(control_type(record), value)
                    yield CommittedRecord(
                        record.offset, header.leader_epoch, header.max_timestamp, None if header.is_control else value
                    )
                offset = header.next_offset
            if offset <= before:
                raise RecordsError(f"{self.partition_log.path}: the batch at offset {before} is missing")
