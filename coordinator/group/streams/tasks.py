"""Tasks of a streams group: partitions of subtopologies, in the three roles active, standby and warm-up."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
from msgspec import field

#: Subtopology id -> partitions; without subtopologies that have no partitions.
TaskSet: TypeAlias = Mapping[str, frozenset[int]]
#: Subtopology id -> partition -> the epoch at which the member got the task.
Epochs: TypeAlias = Mapping[str, Mapping[int, int]]


def nothing() -> Mapping[str, Any]:
    """Return no tasks."""
    return _NOTHING


_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Tasks(msgspec.Struct, frozen=True):
    """Tasks by role, as in a target or in a member's report."""

    active: TaskSet = field(default_factory=nothing)
    standby: TaskSet = field(default_factory=nothing)
    warmup: TaskSet = field(default_factory=nothing)

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


class OwnedTasks(msgspec.Struct, frozen=True):
    """Tasks by role, as a member owns them."""

    active: Epochs = field(default_factory=nothing)
    standby: TaskSet = field(default_factory=nothing)
    warmup: TaskSet = field(default_factory=nothing)

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    @property
    def tasks(self) -> Tasks:
        """Return the tasks without their epochs."""
        return Tasks(task_set(self.active), self.standby, self.warmup)

    def overlaps(self, reported: Tasks) -> bool:
        """Return whether any task is among the reported ones, in the same role."""
        return (
            _overlap(self.active, reported.active)
            or _overlap(self.standby, reported.standby)
            or _overlap(self.warmup, reported.warmup)
        )


NO_TASKS = Tasks()
OWNS_NOTHING = OwnedTasks()


def task_set(tasks: Mapping[str, Collection[int]]) -> TaskSet:
    """Return the tasks as an immutable value."""
    return {subtopology: frozenset(partitions) for subtopology, partitions in tasks.items() if partitions}


def each_task(tasks: Mapping[str, Collection[int]]) -> Iterator[tuple[str, int]]:
    """Yield all tasks as (subtopology id, partition)."""
    for subtopology, partitions in tasks.items():
        for partition in partitions:
            yield subtopology, partition


def by_subtopology(tasks: Iterable[tuple[str, int]]) -> TaskSet:
    """Return tasks, (subtopology id, partition) each, as an immutable value."""
    found: dict[str, list[int]] = {}
    for subtopology, partition in sorted(tasks):
        found.setdefault(subtopology, []).append(partition)
    return task_set(found)


def _overlap(owned: Mapping[str, Collection[int]], reported: TaskSet) -> bool:
    return any(not partitions.isdisjoint(owned.get(subtopology, ())) for subtopology, partitions in reported.items())
