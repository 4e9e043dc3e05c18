"""Append the broker's own batches to partitions of other processes: from the main process, and from a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.workers.messages import AppendRecords
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.coordinators.share.own_appends import PartitionAppends
    from broker.replicas.partitions import Partitions
    from broker.workers.link import Link
    from broker.workers.supervisor import WorkerSupervisor


class WorkerAppends:
    """Appends in the process that has the partition; in the main process."""

    def __init__(self, own: PartitionAppends, partitions: Partitions, supervisor: WorkerSupervisor) -> None:
        self._own = own
        self._partitions = partitions
        self._supervisor = supervisor

    def append(self, topic: str, index: int, records: bytes) -> ErrorCode | Deferred[ErrorCode]:
        """Append a batch. Errors: as for `PartitionAppends.append`; NOT_LEADER_OR_FOLLOWER while the worker is down."""
        if self._partitions.is_elsewhere(topic, index):
            return _code_of(self._supervisor.append_records(AppendRecords(topic, index, records)))
        return self._own.append(topic, index, records)


class RemoteAppends:
    """Appends in this worker, or asks the main process."""

    def __init__(self, own: PartitionAppends, partitions: Partitions, link: Link) -> None:
        self._own = own
        self._partitions = partitions
        self._link = link

    def append(self, topic: str, index: int, records: bytes) -> ErrorCode | Deferred[ErrorCode]:
        """Append a batch. Errors: as for `WorkerAppends.append`."""
        if self._partitions.is_elsewhere(topic, index):
            return _code_of(self._link.ask(AppendRecords(topic, index, records)))
        return self._own.append(topic, index, records)


def _code_of(asked: Deferred[ErrorCode]) -> Deferred[ErrorCode]:
    """Return the answer; NOT_LEADER_OR_FOLLOWER if the other process ends before it answers."""
    ended: Deferred[ErrorCode] = Deferred()

    def on_answer(done: Deferred[ErrorCode]) -> None:
        try:
            ended.resolve(done.result())
        except Exception:
            ended.resolve(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    asked.add_done_callback(on_answer)
    return ended
