"""The durability of a member's records: those of replicated partitions are safe once in-sync replicas have them."""

from __future__ import annotations

from broker.replicas.durability import ACKS_ALL, Durability
from broker.replicas.partition import Partition
from broker.replication.replicated_partition import ReplicatedPartition
from runtime.deferred import Deferred, gather
from storage.append.result import AppendResult
from storage.errors import LogOffline


class ReplicatedDurability:
    """Waits for replicas and, where flush.messages asks for that, for the disk.

    Args:
        flushes: the durability of the broker's own disk.
        timeout_ms: how long coordinators wait for replicas (request.timeout.ms).
    """

    def __init__(self, flushes: Durability, timeout_ms: int) -> None:
        self._flushes = flushes
        self._timeout_ms = timeout_ms

    def acknowledged(self, partition: Partition, result: AppendResult, acks: int, timeout_ms: int) -> Deferred[None]:
        """With acks=all, the records of `result` are in all in-sync replicas; with others, in this broker's log."""
        if not isinstance(partition, ReplicatedPartition):
            return self._flushes.acknowledged(partition, result, acks, timeout_ms)
        try:
            flushed = self._flushes.relied_on(partition)
        except LogOffline as error:
            failed: Deferred[None] = Deferred(mutes=False)
            failed.fail(error)
            return failed
        waits = [] if flushed is None else [flushed]
        if acks == ACKS_ALL:
            waits.append(partition.when_committed(result.last_offset + 1, timeout_ms))
        return _all(waits)

    def relied_on(self, partition: Partition, end_offset: int | None = None) -> Deferred[None] | None:
        flushed = self._flushes.relied_on(partition, end_offset)
        log = partition.log
        wanted = log.log_end_offset if end_offset is None else end_offset
        if not isinstance(partition, ReplicatedPartition) or log.high_watermark >= wanted:
            return flushed
        committed = partition.when_committed(wanted, self._timeout_ms)
        return committed if flushed is None else _all([committed, flushed])

    def may_wait(self, partition: Partition) -> bool:
        return isinstance(partition, ReplicatedPartition) or self._flushes.may_wait(partition)


def _all(waits: list[Deferred[None]]) -> Deferred[None]:
    if len(waits) == 1:
        return waits[0]
    return gather(waits).then(lambda _: None)
