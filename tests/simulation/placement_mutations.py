"""Faults of reassignments, of log directories, and of registrations."""

from __future__ import annotations

from typing import Any

from metadata.partition_registration import PartitionRegistration
from replication import directory_assignments
from replication.directory_assignments import DirectoryAssignments
from replication.leading import LeaderState
from replication.lifecycle import BrokerLifecycle
from replication.roles import Action, RoleChange, change_of
from tests.simulation import broker
from tests.simulation.disk import Disk
from tests.simulation.mutation import mutation


@mutation("removed-replica-stays", "a broker keeps a replica that was reassigned", (broker, "change_of"))
def _change_of(old: Any, new: Any, node_id: int) -> RoleChange:
    found = change_of(old, new, node_id)
    return RoleChange(Action.NOTHING) if found.action is Action.REMOVE else found


_change = LeaderState.change


@mutation("leader-keeps-replicas", "a leader does not learn of added replicas", (LeaderState, "change"))
def _change_isr(self: LeaderState, replicas: Any, isr: Any, partition_epoch: int, end: int, now_ms: int) -> bool:
    return _change(self, self.replicas, isr, partition_epoch, end, now_ms)


mutation(
    "final-answer-repeats",
    "an assignment of a replica that is gone is sent for ever (KAFKA-16583)",
    (directory_assignments, "_FINAL"),
    is_rare=True,
)(frozenset())


@mutation(
    "assignment-lost",
    "an assignment to a directory is lost with its request",
    (DirectoryAssignments, "failed"),
    is_rare=True,
)
def _assignment_lost(self: DirectoryAssignments) -> None:
    self._sent = {}


_directory_failed = BrokerLifecycle.directory_failed


@mutation(
    "failed-directory-unreported",
    "no heartbeat reports a failed log directory (KIP-858)",
    (BrokerLifecycle, "directory_failed"),
    is_rare=True,
)
def _unreported(self: BrokerLifecycle, directory_id: bytes, now_ms: int) -> None:
    """Report nothing."""


_log = Disk.log


@mutation(
    "empty-replica-begins",
    "a replica in a failed directory begins with an empty log in another one",
    (Disk, "log"),
    is_rare=True,
)
def _log_empty(self: Disk, key: Any, assigned: bytes, *, is_new: bool) -> Any:
    return _log(self, key, assigned, is_new=True)


_begin = Disk.begin


@mutation(
    "clean-in-one-directory",
    "a start counts as clean if one of its directories was shut down cleanly (KIP-966)",
    (Disk, "begin"),
    is_rare=True,
)
def _begin_clean(self: Disk) -> int:
    most = max(self.clean.values(), default=-1)
    _begin(self)
    return most


@mutation(
    "empty-log-of-a-move",
    "a missing log is created where the metadata has it, though a move may have left it in a failed directory",
    (PartitionRegistration, "relies_on"),
    is_rare=True,
)
def _rely_on_none(self: PartitionRegistration, broker_id: int) -> bool:
    return False


@mutation(
    "applied-offset-unreported",
    "heartbeats do not report how far the metadata is applied",
    (BrokerLifecycle, "note_applied"),
)
def _note_nothing(self: BrokerLifecycle, offset: int) -> None:
    self.applied_offset = min(self.applied_offset, 0)
