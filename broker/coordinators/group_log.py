"""One partition of `__consumer_offsets`: its log, and the groups that live in it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence

from broker.clock import Clock
from broker.error_map import error_code_of
from broker.partition import Partition
from coordinator.group.load import replay_batches
from coordinator.group.records import StoredRecord
from coordinator.group.settings import GroupSettings
from coordinator.group.shard import GroupShard, TimerKey
from coordinator.timers import Timers
from protocol.errors import ErrorCode
from protocol.records.builder import BatchBuilder
from storage.append_rules import AppendOrigin

log = logging.getLogger(__name__)

#: Room for the header and for what varints may add, below the largest batch that the log takes.
_BATCH_SLACK_BYTES = 1024

#: What a failed write means to the members of a group, where it is not the error itself: as in Kafka.
APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


class GroupLog:
    """A shard and the partition that it is stored in. `loaded` once all that was in the log has been replayed."""

    __slots__ = ("_clock", "_codec", "loaded", "next_offset", "partition", "shard")

    def __init__(
        self, partition: Partition, settings: GroupSettings, timers: Timers[TimerKey], clock: Clock, codec: int
    ) -> None:
        self.partition = partition
        self.shard = GroupShard(partition.index, settings, timers)
        self.next_offset = partition.log_start_offset
        self.loaded = self.next_offset >= partition.log_end_offset
        self._clock = clock
        self._codec = codec

    # -- writing ----------------------------------------------------------------------------------------------------

    def write(self, records: Sequence[StoredRecord]) -> ErrorCode:
        """Append records as one batch, and replay them. Gives the code for the members when that fails.

        Tombstones too many for one batch are written in several: each of them is right by itself.
        """
        limit_bytes = self.partition.log.config.max_message_bytes - _BATCH_SLACK_BYTES
        may_split = len(records) > 1 and all(record.value is None for record in records)
        now_ms = self._clock.now_ms()
        begin = 0
        builder = BatchBuilder(codec=self._codec)
        for index, record in enumerate(records):
            if may_split and builder.size_bytes > limit_bytes:
                code = self._append(builder, records[begin:index], now_ms)
                if code is not ErrorCode.NONE:
                    return code
                begin, builder = index, BatchBuilder(codec=self._codec)
            builder.append(now_ms, record.key, record.value)
        return self._append(builder, records[begin:], now_ms)

    def _append(self, builder: BatchBuilder, records: Sequence[StoredRecord], now_ms: int) -> ErrorCode:
        if self.partition.lacks_replicas():
            return APPEND_ERRORS[ErrorCode.NOT_ENOUGH_REPLICAS]
        try:
            result = self.partition.append(builder.build(), now_ms, AppendOrigin.COORDINATOR)
        except Exception as error:
            code = error_code_of(error)
            if code is ErrorCode.UNKNOWN_SERVER_ERROR:
                log.exception("Writing %d records to %s failed", len(records), self.partition)
            else:
                log.error("Writing %d records to %s failed: %s", len(records), self.partition, error)
            return APPEND_ERRORS.get(code, code)
        replay = self.shard.replay
        for offset, record in enumerate(records, result.base_offset):
            replay(record, offset)
        return ErrorCode.NONE

    # -- loading ----------------------------------------------------------------------------------------------------

    def load(self, chunk_bytes: int) -> Iterator[None]:
        """Replay the log up to its end; pauses after each batch. Raises what the log or a broken batch raises."""
        started = time.monotonic()
        partition = self.partition
        self.next_offset = max(self.next_offset, partition.log_start_offset)
        while self.next_offset < partition.high_watermark:
            piece = partition.log.read(self.next_offset, chunk_bytes, partition.high_watermark)
            data = piece if isinstance(piece, bytes) else piece.read()
            before = self.next_offset
            for following in replay_batches(self.shard, data, before):
                self.next_offset = following
                yield
            if self.next_offset == before:  # a gap at the end: everything beyond was compacted away
                self.next_offset = partition.high_watermark
        self.loaded = True
        unknown = self.shard.unknown_records
        if unknown:
            log.warning("%s has %d records of unknown kinds, left alone: %s", partition, unknown.total(), dict(unknown))
        log.info(
            "Loaded %d groups from %s in %d ms", len(self.shard.groups), partition, (time.monotonic() - started) * 1e3
        )
