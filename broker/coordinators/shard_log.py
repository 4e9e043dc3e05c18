"""One partition of a coordinator's topic: its log, and the shard that its records replay to."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from broker.replicas.partition import Partition
from broker.requests.error_code_map import error_code_of
from coordinator.load import replay_batches
from coordinator.shard import LogRecord, Producer, Shard
from protocol.error_codes import ErrorCode
from protocol.records.batch import HEADER_SIZE, NO_PRODUCER_ID, plain_batch
from protocol.records.builder import BatchBuilder
from protocol.records.control import build_end_transaction_marker
from protocol.records.errors import CorruptBatch, RecordsError
from runtime.clock import Clock
from storage.append.header_validation import AppendOrigin
from storage.append.result import AppendResult
from storage.log.partition_log import PartitionLog
from storage.segment.segment import Segment

if TYPE_CHECKING:
    from broker.replicas.durability import Durability
    from runtime.deferred import Deferred

log = logging.getLogger(__name__)

#: Space reserved for the batch header and for varints, below the largest batch that the log accepts.
_BATCH_SLACK_BYTES = 1024

#: Upper bound of a tombstone's size, without its key.
_TOMBSTONE_BYTES = 20

_ENDLESS = "the batch there does not end in the file"

#: The code that clients get for a failed write, where it differs from the log's own error. As in Kafka.
APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

S = TypeVar("S", bound=Shard[Any])
R = TypeVar("R", bound=LogRecord)


def _parts(sizes_bytes: Sequence[int], limit_bytes: int) -> Iterator[slice]:
    """Split keys of these sizes into as few batches as possible. A key that exceeds the limit gets its own batch."""
    begin, batch_bytes = 0, HEADER_SIZE
    for index, size_bytes in enumerate(sizes_bytes):
        more_bytes = size_bytes + _TOMBSTONE_BYTES
        if batch_bytes + more_bytes > limit_bytes and index > begin:
            yield slice(begin, index)
            begin, batch_bytes = index, HEADER_SIZE
        batch_bytes += more_bytes
    yield slice(begin, len(sizes_bytes))


class ShardLog(Generic[S, R]):
    """A shard and the partition that stores it. `loaded` is set once the whole log has been replayed.

    `noun` names what the shard stores, for log lines. `must_wait`: a response that reports the last write has
    to wait until it may be relied on (broker/replicas/durability.py).
    """

    __slots__ = ("_clock", "_codec", "_noun", "loaded", "must_wait", "next_offset", "partition", "shard")

    def __init__(self, partition: Partition, shard: S, clock: Clock, codec: int, noun: str) -> None:
        self.partition = partition
        self.shard = shard
        self.next_offset = partition.log_start_offset
        self.loaded = self.next_offset >= partition.log_end_offset
        self.must_wait = False
        self._clock = clock
        self._codec = codec
        self._noun = noun

    def relied_on(self, durability: Durability, key: str | None) -> Deferred[None] | None:
        """Return the wait until what is known of a key, or of all keys, may be relied on; None if it may already."""
        return durability.relied_on(self.partition)

    # -- writing ----------------------------------------------------------------------------------------------------

    def write(self, records: Sequence[R], producer: Producer | None = None) -> ErrorCode:
        """Append records as one batch, and replay them. Return the code for clients, also when the write fails.

        Tombstones that exceed one batch are written in several: each of them is correct alone. With a producer the
        batch is part of its transaction.
        """
        now_ms = self._clock.now_ms()
        limit_bytes = self.partition.log_config.max_message_bytes - _BATCH_SLACK_BYTES
        if producer is None and not self._codec:
            packed = self.shard.pack(records)
            if packed is not None and len(packed) < limit_bytes:
                return self._append_records(plain_batch(packed, len(records), now_ms), records, now_ms)
        builder = self._builder(producer)
        items = [(record.key, record.value) for record in records]
        builder.extend(now_ms, items)
        if builder.size_bytes > limit_bytes and len(items) > 1 and all(value is None for _, value in items):
            parts = _parts([len(key) for key, _ in items], limit_bytes)
            codes = (self.write(records[part], producer) for part in parts)
            return next((code for code in codes if code is not ErrorCode.NONE), ErrorCode.NONE)
        producer_id = NO_PRODUCER_ID if producer is None else producer.producer_id
        return self._append_records(bytearray(builder.build()), records, now_ms, producer_id)

    def end_transaction(self, producer: Producer, coordinator_epoch: int, committed: bool) -> ErrorCode:
        """Append a transaction's marker, and replay it. Return the log's own code if that fails."""
        now_ms = self._clock.now_ms()
        marker = build_end_transaction_marker(
            *producer, commit=committed, coordinator_epoch=coordinator_epoch, timestamp_ms=now_ms
        )
        result = self._append(bytearray(marker), 1, now_ms)
        if isinstance(result, ErrorCode):
            return result
        self.shard.replay_transaction_end(producer.producer_id, committed)
        return ErrorCode.NONE

    def _builder(self, producer: Producer | None) -> BatchBuilder:
        if producer is None:
            return BatchBuilder(codec=self._codec)
        producer_id, producer_epoch = producer
        return BatchBuilder(
            codec=self._codec, producer_id=producer_id, producer_epoch=producer_epoch, transactional=True
        )

    def _append_records(
        self, batch: bytearray, records: Sequence[R], now_ms: int, producer_id: int = NO_PRODUCER_ID
    ) -> ErrorCode:
        result = self._append(batch, len(records), now_ms)
        if isinstance(result, ErrorCode):
            return APPEND_ERRORS.get(result, result)
        self.shard.replay_all(records, result.base_offset, producer_id)
        return ErrorCode.NONE

    def _append(self, batch: bytearray, record_count: int, now_ms: int) -> AppendResult | ErrorCode:
        if self.partition.is_under_min_isr():
            return ErrorCode.NOT_ENOUGH_REPLICAS
        try:
            result = self.partition.append(batch, now_ms, AppendOrigin.COORDINATOR)
        except Exception as error:
            code = error_code_of(error)
            if code is ErrorCode.UNKNOWN_SERVER_ERROR:
                log.exception("Writing %d records to %s failed", record_count, self.partition)
            else:
                log.error("Writing %d records to %s failed: %s", record_count, self.partition, error)
            return code
        self.must_wait = self.must_wait or result.must_wait
        return result

    # -- loading ----------------------------------------------------------------------------------------------------

    def load(self, chunk_bytes: int) -> Iterator[None]:
        """Replay the log up to its end, with a pause after each batch. Raises what the log raises.

        A new leader replays also what may not be committed yet: nobody else can decide about it any more.
        Unreadable records are logged and skipped: one damaged record must not make a whole partition unavailable.
        """
        started = time.monotonic()
        partition = self.partition
        self.next_offset = max(self.next_offset, partition.log_start_offset)
        walk = _Walk(partition.log)
        while (before := self.next_offset) < partition.log_end_offset:
            reason: RecordsError | None = None
            try:
                piece = partition.log.read(before, chunk_bytes, partition.log_end_offset)
                data, start = (piece, 0) if isinstance(piece, bytes) else (piece.read(), piece.position)
                walk.move_to(before, data, start)
                for following, end in replay_batches(self.shard, data, before, partial(walk.log_damage, start)):
                    self.next_offset = min(following, walk.limit)
                    walk.end = start + end
                    yield
                if data and self.next_offset == before:
                    raise CorruptBatch(_ENDLESS)
            except RecordsError as error:
                reason = error
            if self.next_offset <= before:  # compaction left a gap, or a length field is wrong
                self.next_offset = walk.skip(before, reason)
        walk.finish()
        self.loaded = True
        unknown = self.shard.unknown_records
        if unknown:
            log.warning("%s has %d records of unknown kinds, left alone: %s", partition, unknown.total(), dict(unknown))
        count, took_ms = len(self.shard), (time.monotonic() - started) * 1e3
        level = logging.INFO if count else logging.DEBUG  # there are 50 partitions, most of them empty
        log.log(
            level, "Loaded %d %s%s from %s in %d ms", count, self._noun, "" if count == 1 else "s", partition, took_ms
        )


class _Walk:
    """Track how far a log was read, and log what wrong lengths or offsets have hidden.

    `end` is a byte position in the segment; `limit` is the offset at which the segment ends.
    """

    def __init__(self, partition_log: PartitionLog) -> None:
        self._log = partition_log
        self._segment: Segment | None = None
        self.end: int | None = None
        self.limit = 0

    def move_to(self, offset: int, data: bytes, start: int) -> None:
        """Continue at `offset`, whose bytes are `data`; they begin at byte `start` of the segment."""
        first = int.from_bytes(data[:8], "big") if data else offset
        for segment in self._log.segments.from_offset(offset):
            if segment.base_offset > max(first, offset):
                break
            if segment is not self._segment:
                self.finish()
                self._segment, self.end = segment, 0 if offset <= segment.base_offset else None
        assert self._segment is not None
        path, self.limit = self._log.segment_of(self._segment.base_offset)
        if self.end is not None and data and start > self.end:
            log.error("%s: bytes %d to %d are unreadable: the offsets do not continue there", path, self.end, start)

    def log_damage(self, start: int, offset: int, position: int, error: RecordsError) -> None:
        """Log a batch that is skipped."""
        assert self._segment is not None
        path = self._segment.log.path
        log.error("%s: skipped the batch at byte %d, offset %d: %s", path, start + position, offset, error)

    def skip(self, offset: int, reason: RecordsError | None) -> int:
        """Skip the rest of the segment that has `offset`. Return the first offset behind the segment."""
        if reason is not None:
            self.move_to(offset, b"", 0)
        file, following = self._log.segment_of(offset)
        if reason is not None:
            place = f"offset {offset}" if self.end is None else f"byte {self.end}"
            log.error("%s: unreadable from %s on: %s", file, place, reason)
            self.end = None
        return following

    def finish(self) -> None:
        """Check that the segment was read to its end."""
        segment, end = self._segment, self.end
        if segment is None or end is None or end >= segment.size_bytes:
            return
        if any(each is segment for each in self._log.segments):  # else cleaning or retention removed it meanwhile
            log.error("%s: unreadable from byte %d on: %s", segment.log.path, end, _ENDLESS)
        self.end = None
