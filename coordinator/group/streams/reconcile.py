"""The way of a member to its target: first give tasks up, then move to the next epoch, then take free tasks.

It works as for members of consumer groups (see consumer/reconcile.py), except that a process may not have a task twice:
neither as active and standby, nor as active in two threads while one is still giving it up. A member may change its own
role in a task at once, because it keeps the task's state: a standby becomes active as soon as the task is free, and an
active task becomes a standby in the step that gives it up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from coordinator.group.refused import Refused
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.member import MemberState, StreamsMember
from coordinator.group.streams.tasks import OWNS_NOTHING, OwnedTasks, Tasks, by_subtopology, each_task
from protocol.error_codes import ErrorCode

#: A subtopology id and a partition.
Task: TypeAlias = tuple[str, int]


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
        owners = _Owners(self.group, member)
        active = _Role(member.assigned.active, self.target.active, owners.is_active_taken)
        standby = _Role(member.assigned.standby, self.target.standby, owners.is_standby_taken)
        warmup = _Role(member.assigned.warmup, self.target.warmup, owners.is_warmup_taken)
        standby.take_over(active.had)
        warmup.convert(standby)
        standby.convert(warmup)
        for replica in (standby, warmup):
            replica.lost -= active.wanted
        epochs = member.assigned.active
        revoking = _owned(active.lost, standby.lost, warmup.lost, lambda task: epochs[task[0]][task[1]])
        must_revoke = not revoking.is_empty and self._may_have(revoking)
        promoted = frozenset() if must_revoke else active.free
        for replica in (standby, warmup):
            replica.kept |= (replica.had & active.wanted) - promoted
        if must_revoke:
            return replace(
                member,
                state=MemberState.UNREVOKED_TASKS,
                epoch=epoch,
                previous_epoch=member.epoch,
                assigned=_owned(active.kept, standby.kept, warmup.kept, lambda task: epochs[task[0]][task[1]]),
                revoking=revoking,
            )
        is_waiting = active.is_waiting or standby.is_waiting or warmup.is_waiting
        return replace(
            member,
            state=MemberState.UNRELEASED_TASKS if is_waiting else MemberState.STABLE,
            epoch=self.target_epoch,
            previous_epoch=member.epoch,
            assigned=_owned(
                active.kept | active.free,
                standby.kept | standby.free,
                warmup.kept | warmup.free,
                lambda task: epochs.get(task[0], {}).get(task[1], self.target_epoch),
            ),
            revoking=OWNS_NOTHING,
        )


class _Owners:
    """Which new tasks a member cannot have yet, because others have them. Its own other roles do not matter."""

    def __init__(self, group: StreamsGroup, member: StreamsMember) -> None:
        self._group = group
        self._process_id = member.process_id
        self._has = member.assigned

    def is_active_taken(self, subtopology_id: str, partition: int) -> bool:
        return (
            self._group.active_process(subtopology_id, partition) is not None
            or self._is_standby_of_another(subtopology_id, partition)
            or self._is_warmup_of_another(subtopology_id, partition)
        )

    def is_standby_taken(self, subtopology_id: str, partition: int) -> bool:
        return (
            (
                self._group.active_process(subtopology_id, partition) == self._process_id
                and partition not in self._has.active.get(subtopology_id, ())
            )
            or self._process_id in self._group.standby_processes(subtopology_id, partition)
            or self._is_warmup_of_another(subtopology_id, partition)
        )

    def is_warmup_taken(self, subtopology_id: str, partition: int) -> bool:
        return (
            self._group.active_process(subtopology_id, partition) == self._process_id
            or self._is_standby_of_another(subtopology_id, partition)
            or self._process_id in self._group.warmup_processes(subtopology_id, partition)
        )

    def _is_standby_of_another(self, subtopology_id: str, partition: int) -> bool:
        """Return whether another member of the process has the standby."""
        processes = self._group.standby_processes(subtopology_id, partition)
        return self._process_id in processes and partition not in self._has.standby.get(subtopology_id, ())

    def _is_warmup_of_another(self, subtopology_id: str, partition: int) -> bool:
        processes = self._group.warmup_processes(subtopology_id, partition)
        return self._process_id in processes and partition not in self._has.warmup.get(subtopology_id, ())


class _Role:
    """The tasks of a member in one role: to keep, to give up, and new ones that are free.

    `is_waiting`: whether others of the target are not free.
    """

    __slots__ = ("free", "had", "is_waiting", "kept", "lost", "wanted")

    def __init__(
        self,
        has: Mapping[str, Collection[int]],
        target: Mapping[str, Collection[int]],
        is_taken: Callable[[str, int], bool],
    ) -> None:
        self.had = frozenset(each_task(has))
        self.wanted = frozenset(each_task(target))
        self.kept = self.had & self.wanted
        self.lost = self.had - self.wanted
        new = self.wanted - self.had
        self.free = frozenset(task for task in new if not is_taken(*task))
        self.is_waiting = len(self.free) < len(new)

    def take_over(self, tasks: frozenset[Task]) -> frozenset[Task]:
        """Have new tasks at once that the member has in another role; return these."""
        taken = self.free & tasks
        self.free -= taken
        self.kept |= taken
        return taken

    def convert(self, other: _Role) -> None:
        """Have replicas of the other role at once, which the member need not give up."""
        other.lost -= self.take_over(other.had)


def _owned(
    active: Iterable[Task], standby: Iterable[Task], warmup: Iterable[Task], epoch_of: Callable[[Task], int]
) -> OwnedTasks:
    epochs: dict[str, dict[int, int]] = {}
    for task in sorted(active):
        epochs.setdefault(task[0], {})[task[1]] = epoch_of(task)
    return OwnedTasks(epochs, by_subtopology(standby), by_subtopology(warmup))
