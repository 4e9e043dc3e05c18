"""A coordinator's log in a member, which knows the uncommitted records of each key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from broker.coordinators.shard_log import R, S, ShardLog
from protocol.error_codes import ErrorCode
from protocol.records.batch import NO_PRODUCER_ID

if TYPE_CHECKING:
    from broker.replicas.durability import Durability
    from broker.replicas.partition import Partition
    from coordinator.shard import Producer
    from runtime.clock import Clock
    from runtime.deferred import Deferred

#: Ends of this many keys are kept before those that are committed are removed.
_MOST_KEYS = 10_000


class CommittedShardLog(ShardLog[S, R]):
    """A shard log whose answers wait for the last record of their own key: a group, a transactional id, a share key.

    A transaction's marker decides about the offsets of any group. So all keys wait for it.
    """

    __slots__ = ("_end_of_all", "_ends")

    def __init__(self, partition: Partition, shard: S, clock: Clock, codec: int, noun: str) -> None:
        super().__init__(partition, shard, clock, codec, noun)
        self._ends: dict[str, int] = {}
        #: A new leader decides about what it has found in the log, committed or not.
        self._end_of_all = partition.log_end_offset

    def end_transaction(self, producer: Producer, coordinator_epoch: int, committed: bool) -> ErrorCode:
        code = super().end_transaction(producer, coordinator_epoch, committed)
        if code is ErrorCode.NONE:
            self._end_of_all = self.partition.log_end_offset
        return code

    def _append_records(
        self, batch: bytearray, records: Sequence[R], now_ms: int, producer_id: int = NO_PRODUCER_ID
    ) -> ErrorCode:
        code = super()._append_records(batch, records, now_ms, producer_id)
        if code is ErrorCode.NONE:
            if len(self._ends) >= _MOST_KEYS:
                high_watermark = self.partition.high_watermark
                self._ends = {key: end for key, end in self._ends.items() if end > high_watermark}
            self._ends |= dict.fromkeys(map(key_of, records), self.partition.log_end_offset)
        return code

    def relied_on(self, durability: Durability, key: str | None) -> Deferred[None] | None:
        """Return the wait for the last record of a key, or of all keys."""
        end_offset = self.partition.log_end_offset
        if key is not None:
            end_offset = max(self._end_of_all, self._ends.get(key, 0))
        return durability.relied_on(self.partition, end_offset)


def key_of(record: Any) -> str:
    """Return the key that a record belongs to."""
    for name in ("group_id", "transactional_id"):
        found = getattr(record, name, None)
        if found is not None:
            return str(found)
    return str(record.share.coordinator_key)
