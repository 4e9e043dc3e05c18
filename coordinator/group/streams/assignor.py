"""The sticky task assignor: tasks stay where they are or where their state is, as far as all members get equally many.

First active tasks: to whom had them, then to whom had a standby of them, then to the processes with the least load.
Then standbys, of subtopologies with state, each to another process than the active task.

Load is of a process: its tasks by its members. Ties are broken as Kafka breaks them, by Java's hash tables and heaps,
so that tasks do not wander when a group moves between a Kafka broker and this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from coordinator.group.assignors.java_order import member_order, string_rank
from coordinator.group.streams.java_heap import JavaHeap
from coordinator.group.streams.tasks import NO_TASKS, Tasks, each_task, task_set
from protocol.java_order import hash_order, java_hash


class SubtopologySpec(NamedTuple):
    """How many tasks a subtopology has, and whether they have state."""

    task_count: int
    is_stateful: bool


class MemberSpec(NamedTuple):
    """The process that a member belongs to, and what it was given last."""

    process_id: str
    target: Tasks


class Task(NamedTuple):
    """A task's name."""

    subtopology_id: str
    partition: int


class _Holder(NamedTuple):
    member_id: str
    process: _Process


def assign(
    subtopologies: Mapping[str, SubtopologySpec], members: Mapping[str, MemberSpec], standby_count: int
) -> dict[str, Tasks]:
    """The next target of every member. `subtopologies` are ordered by id; `standby_count`: replicas of each task with
    state, as far as there are processes for them.
    """
    if not members:
        return {}
    return _Assignment(subtopologies, members, standby_count).targets()


class _Process:
    """A process: what its members have been given so far."""

    __slots__ = ("_heap", "active", "counts", "standby", "tasks")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}  # member id -> tasks
        self.active: dict[str, list[Task]] = {}
        self.standby: dict[str, list[Task]] = {}
        self.tasks: set[Task] = set()
        self._heap: JavaHeap[str] | None = None

    @property
    def load(self) -> float:
        return sum(self.counts.values()) / len(self.counts)

    def give(self, member_id: str, task: Task, *, is_active: bool) -> int:
        """Give a member a task; returns how many it has then."""
        self._heap = None
        return self._give(member_id, task, is_active)

    def _give(self, member_id: str, task: Task, is_active: bool) -> int:
        self.tasks.add(task)
        (self.active if is_active else self.standby).setdefault(member_id, []).append(task)
        self.counts[member_id] += 1
        return self.counts[member_id]

    def give_least_loaded(self, task: Task, *, is_active: bool) -> int:
        """Give the member with the fewest tasks one more."""
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
    """How many tasks a member may have. Who has reached it counts no more, so that it falls for the others where there
    are tasks left over that not all can have.
    """

    tasks: int
    members: int
    per_member: int = field(init=False)

    def __post_init__(self) -> None:
        self.per_member = self._share()

    def _share(self) -> int:
        return -(-self.tasks // self.members) if self.members else 0

    def note(self, count: int) -> None:
        """A member has so many tasks now."""
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
        self._had_standby: dict[Task, list[_Holder]] = {}
        for member_id in member_order(members):
            spec = members[member_id]
            process = processes.setdefault(spec.process_id, _Process())
            process.counts[member_id] = 0
            holder = _Holder(member_id, process)
            for name in each_task(spec.target.active):
                self._had_active[Task(*name)] = holder
            for name in each_task(spec.target.standby):
                self._had_standby.setdefault(Task(*name), []).append(holder)
        buckets = _sized(len(members), len(processes))
        self._processes = [processes[each] for each in hash_order(list(processes), java_hash, buckets)]
        active_count = sum(spec.task_count for spec in subtopologies.values())
        stateful_count = sum(spec.task_count for spec in subtopologies.values() if spec.is_stateful)
        self._active_quota = _Quota(active_count, len(members))
        self._quota = _Quota(active_count + stateful_count * standby_count, len(members))

    def targets(self) -> dict[str, Tasks]:
        """All of it."""
        self._assign_active([t for each, spec in self._subtopologies.items() for t in _tasks(each, spec)])
        if self._standby_count:
            self._assign_standby(
                [t for each, spec in self._subtopologies.items() if spec.is_stateful for t in _tasks(each, spec)]
            )
        targets = dict.fromkeys(self._members, NO_TASKS)
        for process in self._processes:
            for member_id in process.counts:
                targets[member_id] = Tasks(
                    _by_subtopology(process.active.get(member_id, [])),
                    _by_subtopology(process.standby.get(member_id, [])),
                )
        return targets

    # -- active -------------------------------------------------------------------------------------------------------

    def _assign_active(self, tasks: list[Task]) -> None:
        tasks.sort(key=_by_partition)
        tasks = self._keep_active(tasks, self._had_active.get)
        tasks = self._keep_active(tasks, lambda task: _least_loaded(self._had_standby.get(task), None))
        tasks.sort(key=_by_name)
        heap = self._by_load()
        for task in tasks:
            process = heap.pop()
            self._note_active(process.give_least_loaded(task, is_active=True))
            heap.push(process)

    def _keep_active(self, tasks: list[Task], holder_of: Callable[[Task], _Holder | None]) -> list[Task]:
        """Give tasks to their holders while these are below their quota; returns those that are left."""
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
                    break  # as many replicas as there are processes

    def _standby_holder(self, task: Task) -> _Holder | None:
        """Who had the task and may have a standby of it."""
        holder = self._had_active.get(task)
        if holder is not None and task not in holder.process.tasks and self._has_room(holder):
            return holder
        holder = _least_loaded(self._had_standby.get(task), task)
        return holder if holder is not None and self._has_room(holder) else None

    def _has_room(self, holder: _Holder) -> bool:
        return holder.process.counts[holder.member_id] < self._quota.per_member

    def _give_other_process(self, heap: JavaHeap[_Process], task: Task) -> bool:
        """Give a standby to the process with the least load that has nothing of the task yet."""
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


def _least_loaded(holders: list[_Holder] | None, task: Task | None) -> _Holder | None:
    """The first of the holders but for one with less load, of its process and of its own. None if its process has the
    task already.
    """
    if not holders:
        return None
    first = best = holders[0]
    load, count = best.process.load, best.process.counts[best.member_id]
    for holder in holders[1:]:
        process = holder.process
        if process.load < load and task not in process.tasks and process.counts[holder.member_id] < count:
            best, load, count = holder, process.load, process.counts[holder.member_id]
    return best if task is None or task not in first.process.tasks else None


def _sized(capacity: int, count: int) -> int:
    """Buckets of a table that was made for so many keys, once it has `count`."""
    buckets = 1 << (capacity - 1).bit_length()
    while count * 4 > buckets * 3:
        buckets *= 2
    return buckets


def _tasks(subtopology_id: str, spec: SubtopologySpec) -> list[Task]:
    return [Task(subtopology_id, partition) for partition in range(spec.task_count)]


def _by_name(task: Task) -> tuple[bytes, int]:
    return string_rank(task.subtopology_id), task.partition


def _by_partition(task: Task) -> tuple[int, bytes]:
    return task.partition, string_rank(task.subtopology_id)


def _by_subtopology(tasks: list[Task]) -> dict[str, frozenset[int]]:
    found: dict[str, list[int]] = {}
    for task in tasks:
        found.setdefault(task.subtopology_id, []).append(task.partition)
    return dict(task_set(found))
