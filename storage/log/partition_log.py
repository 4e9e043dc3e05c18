"""The log of one partition: the validated appends of clients and coordinators, and look-ups by timestamp.

ReplicaLog has the offsets, epochs and producers. Leadership and waiting requests are handled by
broker/replicas/partition.py.
"""

from __future__ import annotations

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
    OutOfOrderSequence,
    RecordBatchTooLarge,
)
from storage.index.transaction import AbortedTransaction
from storage.log.aborted_transactions import aborted_transactions
from storage.log.replica_log import ReplicaLog
from storage.log.timestamps import Allowance, TimestampAndOffset, find_max_timestamp, find_timestamp, run_to_completion
from storage.log_config import LONG_MAX, LogConfig
from storage.producers.loading import recall_batches
from storage.producers.markers import read_marker
from storage.producers.state import BatchMetadata

_NO_TIME = -1
_CLIENT = AppendOrigin.CLIENT
_NEW_TUPLE = tuple.__new__
#: The index of the attributes in HeaderFields.
_ATTRIBUTES = BatchHeader._fields.index("attributes")


class PartitionLog(ReplicaLog):
    """The log of one partition, created by `load_log` or a LogManager."""

    __slots__ = ("_plain", "appends_at_once")

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
        self._note_waits()

    def _note_waits(self) -> None:
        config = self._config
        waits = self.replicated or config.flush_messages != LONG_MAX
        #: Whether an append leaves the records unchanged, except for their offsets, and waits for nothing.
        self.appends_at_once = not waits and not config.log_append_time

    def begin_replication(self, high_watermark: int) -> None:
        super().begin_replication(high_watermark)
        self._note_waits()

    def end_replication(self) -> None:
        super().end_replication()
        self._note_waits()

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
        """Return whether a batch of that size should be written to the file before it is appended.

        Not where another broker may lead next: records from there would be written to the same place.
        """
        return size_bytes > AT_ONCE_BYTES and self._plain and not self.replicated

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

    # -- look-ups ----------------------------------------------------------------------------------------------------

    def offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """Find the first record from the log start offset on whose timestamp is at least `timestamp` (ms), or None.

        It may take long; requests use `find_timestamp`.
        """
        return run_to_completion(find_timestamp(lambda: self, timestamp, Allowance()), self.directory.fs)

    def max_timestamp(self) -> TimestampAndOffset | None:
        """Find the first record with the largest timestamp (KIP-734); None if no record has one. It may take long."""
        return run_to_completion(find_max_timestamp(lambda: self, Allowance()), self.directory.fs)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap [start, end), by end offset, for read_committed consumers."""
        try:
            expiration_ms = self.producer_state.expiration_ms
            return aborted_transactions(self, self.snapshots, expiration_ms, start_offset, end_offset)
        except OSError as error:
            raise self.directory.fail(error) from error
