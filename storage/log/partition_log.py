"""The log of one partition: what a broker may append to it, and which of it exists, is committed, is stable.

    log start offset <= last stable offset <= high watermark <= log end offset;  recovery point <= log end offset

Adds to LocalLog the rules for appends, producers and transactions, leader epochs, and the look-ups by time and epoch.
Who leads the partition and waits for what is not known here (broker/replicas/partition.py).
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
from storage.append.opening import Opened
from storage.append.placing import AT_ONCE_BYTES, NotInPlace, PlacedBatch
from storage.append.preparing import prepared
from storage.append.result import AppendResult
from storage.append.rules import AppendOrigin, check_batch
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
from storage.log.local import LocalLog
from storage.log.timestamps import Allowance, TimestampAndOffset, at_once, find_max_timestamp, find_timestamp
from storage.log_config import INT_MAX, LONG_MAX, LogConfig
from storage.producers.loading import recall_batches
from storage.producers.markers import note_batch, read_marker
from storage.producers.snapshot import snapshot_path, write_snapshot
from storage.producers.state import BatchMetadata, ProducerState
from storage.segment.segments import Segments

_NO_TIME = -1
_CLIENT = AppendOrigin.CLIENT
_NEW_TUPLE = tuple.__new__
#: What another log has accepted is not judged again.
_AS_IT_IS = LogConfig(max_message_bytes=INT_MAX, message_timestamp_after_max_ms=LONG_MAX)


class PartitionLog(LocalLog):
    """Made by `load_log`, or by a LogManager."""

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
        #: Offsets of the producer snapshots there are, ascending.
        self.snapshots = snapshots
        #: With other replicas the high watermark is moved by `advance_high_watermark`; alone it follows the end.
        self.replicated = False
        self.high_watermark = self.last_stable_offset = log_end_offset
        self._epoch = -1
        self._move_stable_offset()
        self.config = config

    @property
    def config(self) -> LogConfig:
        """The topic's values; may be replaced at any time. Indexes follow it from the next segment on."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        opens = config.compacted or config.compression_type != "producer" or config.record_validation == "full"
        #: A batch is checked by its header alone, and keeps its timestamps.
        self._plain = not (opens or config.log_append_time)
        #: An append leaves its records as they came, except for their place, and asks for no flush.
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
        """Append the one batch in `records`, which gets the next offsets and `leader_epoch`; one write.

        A writable buffer is patched in place, and not kept. Raises the subclasses of AppendRefused and BatchToOpen,
        after which nothing has changed, and LogOffline. `opened` is what became of the batch where it had to be
        opened, `placed` the batch where it lies in its place: NotInPlace where that is another one by now.
        """
        if self.directory.failure is not None or self.closed:
            self.check_usable()
        config = self._config
        if placed is None:
            view = records if type(records) is memoryview else memoryview(records)
            header = check_batch(view, config, origin, now_ms, opened)
            if not self._plain or header.attributes & TIMESTAMP_TYPE_BIT:
                view, header = prepared(view, header, config, origin, now_ms, opened)
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
                self._check_marker(view, header)
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
                self._note_batch(view, header, last_offset)
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

    def is_to_be_placed(self, size_bytes: int) -> bool:
        """Whether a batch of that size is to be put into its place before it is appended."""
        return size_bytes > AT_ONCE_BYTES and self._plain

    def place(self, records: memoryview, now_ms: int, origin: AppendOrigin = _CLIENT) -> PlacedBatch:
        """Check a batch, and give it the place at the end, of a new segment where it takes one; raises as `append`."""
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
        """Append a batch that brings its offsets and its leader epoch along, as it is in another log.

        UnexpectedAppendOffset: it lies below the end of this log. CorruptRecords: wrong bytes.
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
                self.mark_unsynced(self.path)  # the index is a new file, which nobody would miss
        except OSError as error:
            # The records are written. Nobody may read them as if nothing had been aborted, also where descriptors are
            # all that is missing: recovery makes the transaction index anew.
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
        """This broker leads from `leader_epoch` on: what it appends begins at the end of the log."""
        self._epoch = -1  # so that the first append comes by `_begin_epoch`
        self._note_epoch(self.leader_epochs.announce, leader_epoch, self.log_end_offset)

    def _on_roll(self, base_offset: int) -> None:
        self.producer_state.end_offset = base_offset
        self.take_snapshot()

    def take_snapshot(self) -> None:
        """Write the producer state at its end offset, unless that is written already, or nothing. OSError."""
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
        """What is below `offset` is on all replicas that count. Never moves back."""
        self.high_watermark = max(self.high_watermark, min(offset, self.log_end_offset))
        self._move_stable_offset()

    def _move_stable_offset(self) -> None:
        stable = self.producer_state.first_unstable_offset
        if stable is None or stable >= self.high_watermark:
            self.last_stable_offset = self.high_watermark
        else:
            self.last_stable_offset = max(stable, self.log_start_offset)

    def delete_records(self, before_offset: int) -> int:
        """Raise the log start offset to `before_offset` (DeleteRecords); the log start offset that results.

        Whole segments below it go with the next retention run. OffsetOutOfRange: above the high watermark.
        """
        if before_offset > self.high_watermark or before_offset < 0:
            raise OffsetOutOfRange(before_offset, self.log_start_offset, self.high_watermark)
        self.check_usable()
        with self.directory.offline_on_error():
            self.raise_log_start(before_offset)
        return self.log_start_offset

    def raise_log_start(self, offset: int) -> None:
        """Readers may not go below `offset` any more. OSError."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self._move_stable_offset()
            self.leader_epochs.truncate_from_start(offset)
            self.mark_unsynced(self.leader_epochs.path)

    def complete(self) -> None:
        """Write what a clean stop leaves: snapshot, indexes at their true size. OSError; a flush comes after it."""
        self.take_snapshot()
        self._complete_active()

    def close(self) -> None:
        """A clean stop of this log alone, once it was flushed. OSError."""
        self.complete()
        self.close_files()

    # -- look-ups ----------------------------------------------------------------------------------------------------

    def offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record from the log start offset on that is not earlier than `timestamp` (ms), None without.

        However long it takes; on the way of requests `find_timestamp` is used.
        """
        return at_once(find_timestamp(lambda: self, timestamp, Allowance()), self.directory.fs)

    def max_timestamp(self) -> TimestampAndOffset | None:
        """The first record with the largest timestamp (KIP-734); None where no record has one. The same applies."""
        return at_once(find_max_timestamp(lambda: self, Allowance()), self.directory.fs)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEntry:
        """The largest epoch not above `leader_epoch`, and where it ended; (-1, -1) where not known (KIP-279)."""
        return self.leader_epochs.end_offset(leader_epoch, self.log_end_offset)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The transactions that overlap [start, end), by their ends: a reader of committed records skips their data."""
        try:
            expiration_ms = self.producer_state.expiration_ms
            return aborted_transactions(self, self.snapshots, expiration_ms, start_offset, end_offset)
        except OSError as error:
            raise self.directory.fail(error) from error
