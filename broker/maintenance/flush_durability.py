"""The durability of partitions with one replica: that of flush.messages."""

from __future__ import annotations

from broker.maintenance.log_scheduler import Background
from broker.replicas.partition import Partition
from runtime.deferred import Deferred
from storage.append.result import AppendResult
from storage.errors import LogOffline
from storage.log_config import LONG_MAX


class FlushDurability:
    """Waits for the disk, where flush.messages asks for that (broker/replicas/durability.py)."""

    def __init__(self, background: Background) -> None:
        self._background = background

    def acknowledged(self, partition: Partition, result: AppendResult, acks: int, timeout_ms: int) -> Deferred[None]:
        """Flush the log of a partition, whatever `acks` and `timeout_ms` are."""
        try:
            return self._background.flush(partition.log)
        except LogOffline as error:  # since the append
            failed: Deferred[None] = Deferred()
            failed.fail(error)
            return failed

    def relied_on(self, partition: Partition, end_offset: int | None = None) -> Deferred[None] | None:
        return self._background.forced(partition.log)

    def may_wait(self, partition: Partition) -> bool:
        return partition.log_config.flush_messages != LONG_MAX
