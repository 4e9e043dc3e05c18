"""Append batches that the broker itself writes to clients' topics: the records of dead-letter queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from broker.requests.error_code_map import error_code_of
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.maintenance.log_scheduler import Background
    from broker.replicas.append_scheduler import AppendScheduler
    from broker.replicas.partition import Partition
    from broker.replicas.partitions import Partitions
    from runtime.clock import Clock
    from storage.append.result import AppendResult


class OwnAppends(Protocol):
    """Appends batches to partitions, whichever process has them."""

    def append(self, topic: str, index: int, records: bytes) -> ErrorCode | Deferred[ErrorCode]:
        """Append a batch. Errors: as for `PartitionAppends.append`."""


class PartitionAppends:
    """Appends batches to the partitions of this process."""

    def __init__(self, partitions: Partitions, appends: AppendScheduler, background: Background, clock: Clock) -> None:
        self._partitions = partitions
        self._appends = appends
        self._background = background
        self._clock = clock

    def append(self, topic: str, index: int, records: bytes) -> ErrorCode | Deferred[ErrorCode]:
        """Append a batch with acks=all, after the appends that wait there. Flush it if flush.messages asks for that.

        Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER where another worker has the partition,
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
                return self._after_flush(partition, appended)
        except Exception as error:
            return error_code_of(error)
        ended: Deferred[ErrorCode] = Deferred()

        def on_appended(done: Deferred[AppendResult]) -> None:
            try:
                code = self._after_flush(partition, done.result())
            except Exception as error:
                code = error_code_of(error)
            if isinstance(code, Deferred):
                code.add_done_callback(ended.settle_as)
            else:
                ended.resolve(code)

        appended.add_done_callback(on_appended)
        return ended

    def _after_flush(self, partition: Partition, result: AppendResult) -> ErrorCode | Deferred[ErrorCode]:
        """Return NONE, once the records are on disk where that is asked for. Raises LogOffline."""
        if not result.flush_due:
            return ErrorCode.NONE
        ended: Deferred[ErrorCode] = Deferred()

        def on_flushed(done: Deferred[None]) -> None:
            try:
                done.result()
            except Exception as error:
                ended.resolve(error_code_of(error))
            else:
                ended.resolve(ErrorCode.NONE)

        self._background.flush(partition.log).add_done_callback(on_flushed)
        return ended
