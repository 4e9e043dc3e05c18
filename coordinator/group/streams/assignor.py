"""The sticky task assignor: tasks stay with their member or process, as far as all members get equally many.

An active task goes to the member that has it, else to one that has a standby or reported offsets of it, else to the
process with the least load. Then each subtopology with state gets its standbys, on processes other than that of the
active task. Members with a standby come before those that only reported offsets, each with the highest offsets first.

The load of a process is its number of tasks divided by its number of members. Ties are broken as in Kafka, by Java's
hash tables and heaps, so that tasks do not move when a group moves between a Kafka broker and this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from coordinator.group.assignors.java_order import member_order, string_rank
from coordinator.group.streams.java_heap import JavaHeap
from coordinator.group.streams.tasks import NO_TASKS, Tasks, by_subtopology, each_task
from protocol.java_order import grown, hash_order, java_hash


class SubtopologySpec(NamedTuple):
    """The number of tasks of a subtopology, and whether they have state."""

    task_count: int
    is_stateful: bool


class MemberSpec(NamedTuple):
    """The process of a member, its tasks, and the offsets that it reported, by subtopology and partition."""

    process_id: str
    assigned: Tasks
    offsets: Mapping[str, Mapping[int, int]] = MappingProxyType({})


class Task(NamedTuple):
    """The name of a task."""

    subtopology_id: str
    partition: int


class _Holder(NamedTuple):
    member_id: str
    process: _Process


class _Candidate(NamedTuple):
    """A member with the state of a task: of a standby (0) or of an earlier task (1), and minus its offsets."""

    rank: int
    minus_offsets: int
    holder: _Holder


def assign(
    subtopologies: Mapping[str, SubtopologySpec], members: Mapping[str, MemberSpec], standby_count: int
) -> dict[str, Tasks]:
    """Return the next target of each member.

    `subtopologies` are ordered by id. `standby_count`: the number of replicas of each task with state, as far as there
    are processes for them.
    """
    if not members:
        return {}
    return _Assignment(subtopologies, members, standby_count).targets()


class _Process:
    """A process, and the tasks that its members have been given so far."""

    __slots__ = ("_heap", "active", "counts", "standby", "tasks")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}  # member id -> number of tasks
        self.active: dict[str, list[Task]] = {}
        self.standby: dict[str, list[Task]] = {}
        self.tasks: set[Task] = set()
        self._heap: JavaHeap[str] | None = None

    @property
    def load(self) -> float:
        return sum(self.counts.values()) / len(self.counts)

    def give(self, member_id: str, task: Task, *, is_active: bool) -> int:
        """Give a task to a member; return the member's number of tasks."""
        self._heap = None
        return self._give(member_id, task, is_active)

    def _give(self, member_id: str, task: Task, is_active: bool) -> int:
        self.tasks.add(task)
        (self.active if is_active else self.standby).setdefault(member_id, []).append(task)
        self.counts[member_id] += 1
        return self.counts[member_id]

    def give_least_loaded(self, task: Task, *, is_active: bool) -> int:
        """Give a task to the member with the fewest tasks; return its number of tasks."""
        if self._heap is None:
            self._heap = JavaHeap(self.counts.__getitem__)
            for member_id in member_order(self.counts):
                self._heap.push(member_id)
        member_id = self._heap.pop()
        count = self._give(member_id, task, is_active)
        self._heap.push(member_id)
        return count


@dataclass(slots=True)
class _Quota:
    """The most tasks that a member may have.

    A member that reaches the quota is no longer counted. So the quota of the others falls if there are not enough tasks
    for all.
    """

    tasks: int
    members: int
    per_member: int = field(init=False)

    def __post_init__(self) -> None:
        self.per_member = self._share()

    def _share(self) -> int:
        return -(-self.tasks // self.members) if self.members else 0

    def note(self, count: int) -> None:
        """Note that a member now has this number of tasks."""
        if count == self.per_member:
            self.members -= 1
            self.tasks -= count
            self.per_member = self._share()


class _Assignment:
    def __init__(
        self, subtopologies: Mapping[str, SubtopologySpec], members: Mapping[str, MemberSpec], standby_count: int
    ) -> None:
        self._subtopologies = subtopologies
        self._members = members
        self._standby_count = standby_count
        processes: dict[str, _Process] = {}
        self._had_active: dict[Task, _Holder] = {}
        candidates: dict[Task, list[_Candidate]] = {}
        resized_for = 0
        for member_id in member_order(members):
            spec = members[member_id]
            resized_for = len(processes)
            process = processes.setdefault(spec.process_id, _Process())
            process.counts[member_id] = 0
            holder = _Holder(member_id, process)
            for name in each_task(spec.assigned.active):
                self._had_active[Task(*name)] = holder
            for task, rank, offsets in _states(spec):
                candidates.setdefault(task, []).append(_Candidate(rank, -offsets, holder))
        self._had_state = {
            task: [each.holder for each in sorted(found, key=itemgetter(0, 1))] for task, found in candidates.items()
        }
        # Java's `computeIfAbsent` makes room for the keys before the new one only, and puts that first in its bucket.
        buckets = grown(resized_for, 1 << (len(members) - 1).bit_length())
        self._processes = [processes[each] for each in hash_order([*reversed(processes)], java_hash, buckets)]
        active_count = sum(spec.task_count for spec in subtopologies.values())
        stateful_count = sum(spec.task_count for spec in subtopologies.values() if spec.is_stateful)
        self._active_quota = _Quota(active_count, len(members))
        self._quota = _Quota(active_count + stateful_count * standby_count, len(members))

    def targets(self) -> dict[str, Tasks]:
        """Return the targets of all members."""
        self._assign_active([t for each, spec in self._subtopologies.items() for t in _tasks(each, spec)])
        if self._standby_count:
            self._assign_standby(
                [t for each, spec in self._subtopologies.items() if spec.is_stateful for t in _tasks(each, spec)]
            )
        targets = dict.fromkeys(self._members, NO_TASKS)
        for process in self._processes:
            for member_id in process.counts:
                targets[member_id] = Tasks(
                    by_subtopology(process.active.get(member_id, [])),
                    by_subtopology(process.standby.get(member_id, [])),
                )
        return targets

    # -- active -------------------------------------------------------------------------------------------------------

    def _assign_active(self, tasks: list[Task]) -> None:
        tasks.sort(key=_by_partition)
        tasks = self._keep_active(tasks, self._had_active.get)
        tasks = self._keep_active(tasks, lambda task: _least_loaded(self._had_state.get(task, ())))
        tasks.sort(key=_by_name)
        heap = self._by_load()
        for task in tasks:
            process = heap.pop()
            self._note_active(process.give_least_loaded(task, is_active=True))
            heap.push(process)

    def _keep_active(self, tasks: list[Task], holder_of: Callable[[Task], _Holder | None]) -> list[Task]:
        """Give tasks to their holders that are below their quota; return the remaining tasks."""
        left = []
        for task in tasks:
            holder = holder_of(task)
            if holder is None or holder.process.counts[holder.member_id] >= self._active_quota.per_member:
                left.append(task)
            else:
                self._note_active(holder.process.give(holder.member_id, task, is_active=True))
        return left

    def _note_active(self, count: int) -> None:
        self._active_quota.note(count)
        self._quota.note(count)

    # -- standby ------------------------------------------------------------------------------------------------------

    def _assign_standby(self, tasks: list[Task]) -> None:
        tasks.sort(key=_by_partition, reverse=True)
        left: list[tuple[Task, int]] = []
        for task in tasks:
            for replica in range(self._standby_count):
                holder = self._standby_holder(task)
                if holder is None:
                    left.append((task, self._standby_count - replica))
                    break
                self._quota.note(holder.process.give(holder.member_id, task, is_active=False))
        left.sort(key=lambda each: _by_name(each[0]), reverse=True)
        heap = self._by_load()
        for task, count in left:
            for _ in range(count):
                if not self._give_other_process(heap, task):
                    break  # there are no more replicas than processes

    def _standby_holder(self, task: Task) -> _Holder | None:
        """Return the holder of the task that may have a standby of it, or None."""
        holder = self._had_active.get(task)
        if holder is not None and task not in holder.process.tasks and self._has_room(holder):
            return holder
        without = [each for each in self._had_state.get(task, ()) if task not in each.process.tasks]
        holder = _least_loaded(without)
        return holder if holder is not None and self._has_room(holder) else None

    def _has_room(self, holder: _Holder) -> bool:
        return holder.process.counts[holder.member_id] < self._quota.per_member

    def _give_other_process(self, heap: JavaHeap[_Process], task: Task) -> bool:
        """Give a standby to the least loaded process without a copy of the task; return whether there is one."""
        passed = []
        given = False
        while len(heap) and not given:
            process = heap.pop()
            passed.append(process)
            if task not in process.tasks:
                self._quota.note(process.give_least_loaded(task, is_active=False))
                given = True
        for process in reversed(passed):
            heap.push(process)
        return given

    def _by_load(self) -> JavaHeap[_Process]:
        heap: JavaHeap[_Process] = JavaHeap(lambda process: process.load)
        for process in self._processes:
            heap.push(process)
        return heap


def _states(spec: MemberSpec) -> Iterator[tuple[Task, int, int]]:
    """Yield the tasks whose state a member has, with the rank of a candidate and the offsets in it."""
    standbys = {Task(*name) for name in each_task(spec.assigned.standby)}
    for task in standbys:
        yield task, 0, spec.offsets.get(task.subtopology_id, {}).get(task.partition, 0)
    for subtopology_id, offsets in spec.offsets.items():
        for partition, offset in offsets.items():
            task = Task(subtopology_id, partition)
            if task not in standbys:
                yield task, 1, offset


def _least_loaded(holders: Sequence[_Holder]) -> _Holder | None:
    """Return the first holder, or a later one if both the load of its process and its own are lower."""
    if not holders:
        return None
    best = holders[0]
    load, count = best.process.load, best.process.counts[best.member_id]
    for holder in holders[1:]:
        process = holder.process
        if process.load < load and process.counts[holder.member_id] < count:
            best, load, count = holder, process.load, process.counts[holder.member_id]
    return best


def _tasks(subtopology_id: str, spec: SubtopologySpec) -> list[Task]:
    return [Task(subtopology_id, partition) for partition in range(spec.task_count)]


def _by_name(task: Task) -> tuple[bytes, int]:
    return string_rank(task.subtopology_id), task.partition


def _by_partition(task: Task) -> tuple[int, bytes]:
    return task.partition, string_rank(task.subtopology_id)
