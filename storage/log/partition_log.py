"""The log of one partition: appends, and which records exist, are committed and are stable.

    log start offset <= last stable offset <= high watermark <= log end offset;  recovery point <= log end offset

It adds to LocalLog the validation of appends, producers and transactions, leader epochs, and look-ups by timestamp and
epoch. Leadership and waiting requests are handled by broker/replicas/partition.py.
"""

from __future__ import annotations

from collections.abc import Callable

from protocol.records.batch import (
    CONTROL_BIT,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from protocol.records.buffer import Buffer
from storage.append.header_validation import AppendOrigin, HeaderFields, check_batch, check_header
from storage.append.placing import AT_ONCE_BYTES, NotInPlace, PlacedBatch
from storage.append.preparing import prepared
from storage.append.record_validation import Opened
from storage.append.result import AppendResult
from storage.errors import (
    AppendRefused,
    InvalidRecords,
    OffsetOutOfRange,
    OutOfOrderSequence,
    RecordBatchTooLarge,
    UnexpectedAppendOffset,
)
from storage.index.transaction import AbortedTransaction
from storage.log.aborted_transactions import aborted_transactions
from storage.log.directory import LogDirectory
from storage.log.leader_epoch import EpochEntry, LeaderEpochs
from storage.log.local_log import LocalLog
from storage.log.timestamps import Allowance, TimestampAndOffset, find_max_timestamp, find_timestamp, run_to_completion
from storage.log_config import INT_MAX, LONG_MAX, LogConfig
from storage.producers.loading import recall_batches
from storage.producers.markers import note_batch, read_marker
from storage.producers.snapshot import snapshot_path, write_snapshot
from storage.producers.state import BatchMetadata, ProducerState
from storage.segment.segment_list import Segments

_NO_TIME = -1
_CLIENT = AppendOrigin.CLIENT
_NEW_TUPLE = tuple.__new__
#: The index of the attributes in HeaderFields.
_ATTRIBUTES = BatchHeader._fields.index("attributes")
#: A batch that another log has accepted is not validated again.
_AS_IT_IS = LogConfig(max_message_bytes=INT_MAX, message_timestamp_after_max_ms=LONG_MAX)


class PartitionLog(LocalLog):
    """The log of one partition, created by `load_log` or a LogManager."""

    __slots__ = (
        "_epoch",
        "_plain",
        "appends_at_once",
        "high_watermark",
        "last_stable_offset",
        "leader_epochs",
        "producer_state",
        "replicated",
        "snapshots",
        "topic_id",
    )

    def __init__(
        self,
        directory: LogDirectory,
        path: str,
        topic: str,
        partition: int,
        config: LogConfig,
        *,
        segments: Segments,
        producer_state: ProducerState,
        leader_epochs: LeaderEpochs,
        snapshots: list[int],
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        now_ms: int,
        topic_id: bytes | None = None,
    ) -> None:
        super().__init__(
            directory,
            path,
            topic,
            partition,
            config,
            segments=segments,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            recovery_point=recovery_point,
            now_ms=now_ms,
        )
        self.topic_id = topic_id
        self.producer_state = producer_state
        self.leader_epochs = leader_epochs
        #: Offsets of the existing producer snapshots, ascending.
        self.snapshots = snapshots
        #: With other replicas `advance_high_watermark` moves the high watermark; otherwise it is the log end offset.
        self.replicated = False
        self.high_watermark = self.last_stable_offset = log_end_offset
        self._epoch = -1
        self._move_stable_offset()
        self.config = config

    @property
    def config(self) -> LogConfig:
        """The configuration of the topic. It may be replaced at any time; indexes use it from the next segment on."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        opens = config.compacted or config.compression_type != "producer" or config.record_validation == "full"
        opens = opens or config.limits_records
        #: Whether a batch is validated by its header alone and keeps its timestamps.
        self._plain = not (opens or config.log_append_time)
        #: Whether an append leaves the records unchanged, except for their offsets, and needs no flush.
        self.appends_at_once = not config.log_append_time and config.flush_messages == LONG_MAX

    # -- append ------------------------------------------------------------------------------------------------------

    def append(
        self,
        records: Buffer,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = _CLIENT,
        opened: Opened | None = None,
        placed: PlacedBatch | None = None,
    ) -> AppendResult:
        """Append the batch in `records` with the next offsets and `leader_epoch`, in one write.

        A writable buffer is changed in place and not kept. `opened` is the result of a worker for a batch that had to
        be inspected. `placed` is a batch that is written to the file already. Raises subclasses of AppendRefused,
        BatchToOpen, and NotInPlace if `placed` is no longer at the log end; then nothing has changed. Raises
        LogOffline.
        """
        if self.directory.failure is not None or self.closed:
            self.check_usable()
        config = self._config
        if placed is None:
            view = records if type(records) is memoryview else memoryview(records)
            header: HeaderFields = check_header(view, config, origin, now_ms, opened)
            if not self._plain or header[_ATTRIBUTES] & TIMESTAMP_TYPE_BIT:
                view, header = prepared(view, BatchHeader._make(header), config, origin, now_ms, opened)
        else:
            if not placed.is_in_place(self._active, config):
                raise NotInPlace
            view, header = placed.records, placed.header
        _, length, _, _, _, attributes, delta, _, max_timestamp, producer_id, producer_epoch, sequence, _ = header
        size = length + LOG_OVERHEAD
        if size != len(view):
            view = view[:size]
        if size > config.segment_bytes:
            raise RecordBatchTooLarge(size, config.segment_bytes)
        state = self.producer_state
        if producer_id >= 0:
            if attributes & CONTROL_BIT:
                self._check_marker(view, BatchHeader._make(header))
            else:
                transactional = attributes & TRANSACTIONAL_BIT != 0
                try:
                    try:
                        duplicate = state.check(
                            producer_id, producer_epoch, sequence, delta, transactional, origin is _CLIENT
                        )
                    except OutOfOrderSequence:
                        self._recall_batches(producer_id)
                        duplicate = state.check(producer_id, producer_epoch, sequence, delta, transactional)
                except AppendRefused:
                    self._make_room(size, self.log_end_offset + delta, max_timestamp, now_ms)
                    raise
                if duplicate is not None:
                    self._make_room(size, self.log_end_offset + delta, max_timestamp, now_ms)
                    return self._repeated(duplicate)
        base_offset = self.log_end_offset
        last_offset = base_offset + delta
        if leader_epoch != self._epoch:
            self._begin_epoch(leader_epoch, base_offset)
        self._write(view, base_offset, last_offset, max_timestamp, leader_epoch, now_ms, placed is not None)
        end = self.log_end_offset = last_offset + 1
        if producer_id >= 0:
            if attributes & CONTROL_BIT:
                self._note_batch(view, BatchHeader._make(header), last_offset)
            else:
                state.add_batch(producer_id, producer_epoch, sequence, last_offset, delta, max_timestamp, transactional)
        state.end_offset = end
        if not self.replicated:
            self.high_watermark = end
        if state.transactions:
            self._move_stable_offset()
        else:
            self.last_stable_offset = self.high_watermark
        return _NEW_TUPLE(
            AppendResult,
            (
                base_offset,
                last_offset,
                max_timestamp,
                now_ms if config.log_append_time else _NO_TIME,
                self.log_start_offset,
                False,
                end - self.recovery_point >= config.flush_messages,
            ),
        )

    def should_place_first(self, size_bytes: int) -> bool:
        """Return whether a batch of that size should be written to the file before it is appended."""
        return size_bytes > AT_ONCE_BYTES and self._plain

    def place(self, records: memoryview, now_ms: int, origin: AppendOrigin = _CLIENT) -> PlacedBatch:
        """Validate a batch and assign it the position at the log end, in a new segment if necessary. Raises as
        `append`.
        """
        self.check_usable()
        header = check_batch(records, self._config, origin, now_ms)
        if header.attributes & TIMESTAMP_TYPE_BIT:
            records, header = prepared(records, header, self._config, origin, now_ms, None)
        size = header.size_bytes
        if size > self._config.segment_bytes:
            raise RecordBatchTooLarge(size, self._config.segment_bytes)
        self._make_room(size, self.log_end_offset + header.last_offset_delta, header.max_timestamp, now_ms)
        with self.directory.offline_on_error():
            return PlacedBatch(self.directory.fs, self._active, records[:size], header, self._config)

    def append_replicated(self, batch: memoryview, *, now_ms: int) -> None:
        """Append a batch of another log with its offsets and leader epoch.

        Raises UnexpectedAppendOffset if it is below the end of this log, and CorruptRecords for damaged bytes.
        """
        self.check_usable()
        header = check_batch(batch, _AS_IT_IS, AppendOrigin.REPLICATION, now_ms)
        if header.base_offset < self.log_end_offset or header.last_offset_delta < 0:
            raise UnexpectedAppendOffset(header.base_offset, self.log_end_offset)
        self._begin_epoch(header.leader_epoch, header.base_offset)
        self._write(batch, header.base_offset, header.last_offset, header.max_timestamp, header.leader_epoch, now_ms)
        self.log_end_offset = header.next_offset
        self._note_batch(batch, header, header.last_offset)
        self.producer_state.end_offset = header.next_offset
        if not self.replicated:
            self.high_watermark = self.log_end_offset
        self._move_stable_offset()

    def _repeated(self, batch: BatchMetadata) -> AppendResult:
        return AppendResult(
            batch.first_offset, batch.last_offset, batch.timestamp, batch.timestamp, self.log_start_offset, True, False
        )

    def _recall_batches(self, producer_id: int) -> None:
        entry = self.producer_state.producers[producer_id]
        if not entry.complete:
            with self.directory.offline_on_error():
                recall_batches(self.segments, entry)

    def _check_marker(self, view: memoryview, header: BatchHeader) -> None:
        marker = read_marker(view, header)
        if marker is None:
            raise InvalidRecords("A control batch of a producer has to end a transaction.")
        self.producer_state.check_marker(header.producer_id, header.producer_epoch, marker.coordinator_epoch)

    def _note_batch(self, view: memoryview, header: BatchHeader, last_offset: int) -> None:
        aborted = self._active.txn_index
        had_any = aborted.may_have_any
        try:
            note_batch(self.producer_state, aborted, view, header, last_offset)
            if not had_any and aborted.may_have_any:
                self.mark_unsynced(self.path)  # the index is a new file, and nothing detects its loss
        except OSError as error:
            # The records are written, but without the index entry consumers would read them as committed. So the
            # directory fails even if only a descriptor was missing, and recovery rebuilds the transaction index.
            raise self.directory.fail(error, half_done=True) from error

    def _begin_epoch(self, leader_epoch: int, start_offset: int) -> None:
        self._note_epoch(self.leader_epochs.assign, leader_epoch, start_offset)
        self._epoch = leader_epoch

    def _note_epoch(self, note: Callable[[int, int], bool], leader_epoch: int, start_offset: int) -> None:
        if leader_epoch >= 0:
            with self.directory.offline_on_error():
                if note(leader_epoch, start_offset):
                    self.mark_unsynced(self.leader_epochs.path)

    def assign_leader_epoch(self, leader_epoch: int) -> None:
        """Record that this broker leads from `leader_epoch` on, beginning at the log end."""
        self._epoch = -1  # so that the first append calls `_begin_epoch`
        self._note_epoch(self.leader_epochs.announce, leader_epoch, self.log_end_offset)

    def _on_roll(self, base_offset: int) -> None:
        self.producer_state.end_offset = base_offset
        self.take_snapshot()

    def take_snapshot(self) -> None:
        """Write a snapshot of the producer state, unless it exists already or there is nothing to write. Raises
        OSError.
        """
        offset = self.producer_state.end_offset
        if self.snapshots:
            if offset <= self.snapshots[-1]:
                return
        elif offset <= self.log_start_offset:
            return
        path = self.snapshot_path(offset)
        write_snapshot(self.directory.fs, path, self.producer_state.producers.values())
        self.snapshots.append(offset)
        self.mark_unsynced(path)
        self.mark_unsynced(self.path)

    def snapshot_path(self, offset: int) -> str:
        return snapshot_path(self.path, offset)

    # -- offsets -----------------------------------------------------------------------------------------------------

    def advance_high_watermark(self, offset: int) -> None:
        """Raise the high watermark to `offset`: all in-sync replicas have the records below it."""
        self.high_watermark = max(self.high_watermark, min(offset, self.log_end_offset))
        self._move_stable_offset()

    def _move_stable_offset(self) -> None:
        stable = self.producer_state.first_unstable_offset
        if stable is None or stable >= self.high_watermark:
            self.last_stable_offset = self.high_watermark
        else:
            self.last_stable_offset = max(stable, self.log_start_offset)

    def delete_records(self, before_offset: int) -> int:
        """Raise the log start offset to `before_offset` (DeleteRecords) and return the log start offset.

        Whole segments below it are removed by the next retention run. Raises OffsetOutOfRange above the high watermark.
        """
        if before_offset > self.high_watermark or before_offset < 0:
            raise OffsetOutOfRange(before_offset, self.log_start_offset, self.high_watermark)
        self.check_usable()
        with self.directory.offline_on_error():
            self.raise_log_start(before_offset)
        return self.log_start_offset

    def raise_log_start(self, offset: int) -> None:
        """Raise the log start offset to `offset`, if it is higher. Raises OSError."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self._move_stable_offset()
            self.leader_epochs.truncate_from_start(offset)
            self.mark_unsynced(self.leader_epochs.path)

    def complete(self) -> None:
        """Write the snapshot and truncate indexes for a clean shutdown; a flush must follow. Raises OSError."""
        self.take_snapshot()
        self._complete_active()

    def close(self) -> None:
        """Close this log alone as a clean shutdown does, after a flush. Raises OSError."""
        self.complete()
        self.close_files()

    # -- look-ups ----------------------------------------------------------------------------------------------------

    def offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """Find the first record from the log start offset on whose timestamp is at least `timestamp` (ms), or None.

        It may take long; requests use `find_timestamp`.
        """
        return run_to_completion(find_timestamp(lambda: self, timestamp, Allowance()), self.directory.fs)

    def max_timestamp(self) -> TimestampAndOffset | None:
        """Find the first record with the largest timestamp (KIP-734); None if no record has one. It may take long."""
        return run_to_completion(find_max_timestamp(lambda: self, Allowance()), self.directory.fs)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEntry:
        """Return the largest epoch not above `leader_epoch` and its end offset; (-1, -1) if unknown (KIP-279)."""
        return self.leader_epochs.end_offset(leader_epoch, self.log_end_offset)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap [start, end), by end offset, for read_committed consumers."""
        try:
            expiration_ms = self.producer_state.expiration_ms
            return aborted_transactions(self, self.snapshots, expiration_ms, start_offset, end_offset)
        except OSError as error:
            raise self.directory.fail(error) from error
