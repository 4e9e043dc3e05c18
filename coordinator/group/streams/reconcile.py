"""The way of a member to its target: first give tasks up, then move to the next epoch, then take free tasks.

It works as for members of consumer groups (see consumer/reconcile.py), except that a process may not have a task twice:
neither as active and standby, nor as active in two threads while one is still giving it up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec
from msgspec.structs import replace

from coordinator.group.refused import Refused
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.member import MemberState, StreamsMember
from coordinator.group.streams.tasks import OWNS_NOTHING, OwnedTasks, Tasks, TaskSet
from protocol.error_codes import ErrorCode


class Reconciliation(msgspec.Struct, frozen=True):
    """The input of a step. `reported`: the tasks that the member reports, None if it reports none.

    `group` knows the owners of all tasks.
    """

    target_epoch: int
    target: Tasks
    reported: Tasks | None
    group: StreamsGroup

    def step(self, member: StreamsMember) -> StreamsMember:
        """Return the member after this step; the same object if nothing changes.

        Raises Refused: FENCED_MEMBER_EPOCH for a member in a state of a later version of Kafka.
        """
        if member.state is MemberState.STABLE:
            return member if member.epoch == self.target_epoch else self._next(member, member.epoch)
        if member.state is MemberState.UNREVOKED_TASKS:
            return member if self._may_have(member.revoking) else self._next(member, member.epoch + 1)
        if member.state is MemberState.UNRELEASED_TASKS:
            return self._next(member, member.epoch)
        if self.reported is None or not self.reported.is_empty:
            message = (
                "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
            )
            raise Refused(ErrorCode.FENCED_MEMBER_EPOCH, message)
        return self._next(member, self.target_epoch)

    def _may_have(self, owned: OwnedTasks) -> bool:
        """Return whether the member may still have any of the tasks; True if it does not report tasks."""
        return self.reported is None or owned.overlaps(self.reported)

    def _next(self, member: StreamsMember, epoch: int) -> StreamsMember:
        """Revoke tasks that are not in the target; if there are none, move to the target's epoch."""
        has, target, process_id = member.assigned, self.target, member.process_id
        active = _split(has.active, target.active, lambda *task: self._is_active_taken(process_id, *task))
        standby = _split(has.standby, target.standby, lambda *task: self._is_in_process(process_id, *task))
        warmup = _split(has.warmup, target.warmup, lambda *task: self._is_in_process(process_id, *task))
        revoking = OwnedTasks(_with_epochs(has.active, active.lost), standby.lost, warmup.lost)
        kept = OwnedTasks(_with_epochs(has.active, active.kept), standby.kept, warmup.kept)
        if not revoking.is_empty and self._may_have(revoking):
            return replace(
                member,
                state=MemberState.UNREVOKED_TASKS,
                epoch=epoch,
                previous_epoch=member.epoch,
                assigned=kept,
                revoking=revoking,
            )
        is_waiting = active.is_waiting or standby.is_waiting or warmup.is_waiting
        given = {each: dict.fromkeys(sorted(active.free[each]), self.target_epoch) for each in active.free}
        return replace(
            member,
            state=MemberState.UNRELEASED_TASKS if is_waiting else MemberState.STABLE,
            epoch=self.target_epoch,
            previous_epoch=member.epoch,
            assigned=kept.merged(OwnedTasks(given, standby.free, warmup.free)),
            revoking=OWNS_NOTHING,
        )

    def _is_active_taken(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        group = self.group
        return (
            group.active_process(subtopology_id, partition) is not None
            or process_id in group.standby_processes(subtopology_id, partition)
            or process_id in group.warmup_processes(subtopology_id, partition)
        )

    def _is_in_process(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        group = self.group
        return (
            group.active_process(subtopology_id, partition) == process_id
            or process_id in group.standby_processes(subtopology_id, partition)
            or process_id in group.warmup_processes(subtopology_id, partition)
        )


class _Split(msgspec.Struct, frozen=True):
    """Tasks to keep, tasks to give up, new tasks that are free, and whether others of the target are not free."""

    kept: TaskSet
    lost: TaskSet
    free: TaskSet
    is_waiting: bool


def _split(has: Mapping[str, Collection[int]], target: TaskSet, is_taken: Callable[[str, int], bool]) -> _Split:
    kept: dict[str, frozenset[int]] = {}
    lost: dict[str, frozenset[int]] = {}
    free: dict[str, frozenset[int]] = {}
    is_waiting = False
    for each in {**target, **has}:
        had, wanted = frozenset(has.get(each, ())), target.get(each, frozenset())
        new = wanted - had
        untaken = frozenset(partition for partition in new if not is_taken(each, partition))
        is_waiting = is_waiting or len(untaken) < len(new)
        for result, partitions in ((kept, had & wanted), (lost, had - wanted), (free, untaken)):
            if partitions:
                result[each] = partitions
    return _Split(kept, lost, free, is_waiting)


def _with_epochs(epochs: Mapping[str, Mapping[int, int]], tasks: TaskSet) -> dict[str, dict[int, int]]:
    return {each: {partition: epochs[each][partition] for partition in sorted(tasks[each])} for each in tasks}
