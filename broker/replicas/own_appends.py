"""Append batches that the broker itself writes to topics: dead letters, and metadata of remote segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from broker.replicas.durability import ACKS_ALL
from broker.requests.error_code_map import error_code_of
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.replicas.append_scheduler import AppendScheduler
    from broker.replicas.durability import Durability
    from broker.replicas.partition import Partition
    from broker.replicas.partitions import Partitions
    from runtime.clock import Clock
    from storage.append.result import AppendResult


#: How long an append waits for other replicas; as long as a producer's request by default.
_TIMEOUT_MS = 30_000


class OwnAppends(Protocol):
    """Appends batches to partitions, whichever process has them."""

    def append(self, topic: str, index: int, records: bytes) -> ErrorCode | Deferred[ErrorCode]:
        """Append a batch. Errors: as for `PartitionAppends.append`."""


class PartitionAppends:
    """Appends batches to the partitions of this broker."""

    def __init__(self, partitions: Partitions, appends: AppendScheduler, durability: Durability, clock: Clock) -> None:
        self._partitions = partitions
        self._appends = appends
        self._durability = durability
        self._clock = clock

    def append(self, topic: str, index: int, records: bytes) -> ErrorCode | Deferred[ErrorCode]:
        """Append a batch with acks=all, after the appends that wait there. Flush it if flush.messages asks for that.

        Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER where another broker leads the partition,
        NOT_ENOUGH_REPLICAS, and those of `Partition.append`. The Deferred does not fail.
        """
        partition = self._partitions.get(topic, index)
        if partition is None:
            return self._partitions.absence(topic, index)
        if partition.is_under_min_isr():
            return ErrorCode.NOT_ENOUGH_REPLICAS
        try:
            appended = self._appends.append(partition, records, self._clock.now_ms())
            if not isinstance(appended, Deferred):
                return self._once_safe(partition, appended)
        except Exception as error:
            return error_code_of(error)
        ended: Deferred[ErrorCode] = Deferred()

        def on_appended(done: Deferred[AppendResult]) -> None:
            try:
                code = self._once_safe(partition, done.result())
            except Exception as error:
                code = error_code_of(error)
            if isinstance(code, Deferred):
                code.add_done_callback(ended.settle_as)
            else:
                ended.resolve(code)

        appended.add_done_callback(on_appended)
        return ended

    def _once_safe(self, partition: Partition, result: AppendResult) -> ErrorCode | Deferred[ErrorCode]:
        """Return NONE, once the records are as safe as acks=all asks for, or why they are not."""
        if not result.must_wait:
            return ErrorCode.NONE
        ended: Deferred[ErrorCode] = Deferred()

        def on_safe(done: Deferred[None]) -> None:
            try:
                done.result()
            except Exception as error:
                ended.resolve(error_code_of(error))
            else:
                ended.resolve(ErrorCode.NONE)

        safe = self._durability.acknowledged(partition, result, ACKS_ALL, _TIMEOUT_MS)
        safe.add_done_callback(on_safe)
        return ended
