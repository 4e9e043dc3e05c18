"""Write markers into the partitions of all workers, for the transaction coordinator of the main process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.coordinators.transaction.markers import Marker, PartitionMarkers
    from broker.replicas.partitions import Partitions
    from broker.workers.supervisor import WorkerSupervisor
    from protocol.error_codes import ErrorCode
    from runtime.deferred import Deferred


class WorkerMarkers:
    """Writes a marker in the process that hosts the partition."""

    def __init__(self, own: PartitionMarkers, partitions: Partitions, supervisor: WorkerSupervisor) -> None:
        self._own = own
        self._partitions = partitions
        self._supervisor = supervisor

    def write(self, marker: Marker, topic: str, index: int) -> ErrorCode | Deferred[ErrorCode]:
        """Write a marker. Errors: as for `PartitionMarkers.write`; NOT_LEADER_OR_FOLLOWER while the worker is down."""
        if self._partitions.is_elsewhere(topic, index):
            return self._supervisor.mark(marker, topic, index)
        return self._own.write(marker, topic, index)
