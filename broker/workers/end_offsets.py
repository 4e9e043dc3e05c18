"""Look up end offsets of the partitions of all workers, in the main process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from broker.replicas.end_offsets import PartitionEndOffsets
from broker.workers.link import LinkEnded
from coordinator.group.refused import Refused
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.replicas.partitions import Partitions
    from broker.workers.supervisor import WorkerSupervisor
    from storage.checkpoints import TopicPartition


class WorkerEndOffsets:
    """Asks the process that hosts the partition."""

    def __init__(self, partitions: Partitions, supervisor: WorkerSupervisor) -> None:
        self._own = PartitionEndOffsets(partitions)
        self._partitions = partitions
        self._supervisor = supervisor

    @property
    def known_ends(self) -> Mapping[TopicPartition, int]:
        """The high watermarks in the other workers, as of the last `learn_ends`."""
        return self._supervisor.known_ends

    def end_offset(self, topic: str, partition: int) -> Deferred[int]:
        """Resolve to the high watermark; fail with Refused: NOT_LEADER_OR_FOLLOWER while the worker is down."""
        if not self._partitions.is_elsewhere(topic, partition):
            return self._own.end_offset(topic, partition)
        ended: Deferred[int] = Deferred()

        def pass_on(done: Deferred[int]) -> None:
            try:
                ended.resolve(done.result())
            except LinkEnded:
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                ended.fail(Refused(code, code.text))
            except Exception as error:
                ended.fail(error)

        self._supervisor.end_offset(topic, partition).add_done_callback(pass_on)
        return ended

    def learn_ends(self, places: Iterable[TopicPartition]) -> Deferred[None]:
        """Ask the workers for the high watermarks of those of these partitions that they host."""
        return self._supervisor.learn_ends({each for each in places if self._partitions.is_elsewhere(*each)})
