"""Tasks of a streams group: partitions of subtopologies, in the three roles that a member can have one in."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
from msgspec import field

#: Subtopology id -> partitions; subtopologies without partitions are left out.
TaskSet: TypeAlias = Mapping[str, frozenset[int]]
#: Subtopology id -> partition -> the epoch at which the member was given it.
Epochs: TypeAlias = Mapping[str, Mapping[int, int]]


def nothing() -> Mapping[str, Any]:
    """No tasks."""
    return _NOTHING


_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Tasks(msgspec.Struct, frozen=True):
    """Tasks by role, as a target has them or a member reports them."""

    active: TaskSet = field(default_factory=nothing)
    standby: TaskSet = field(default_factory=nothing)
    warmup: TaskSet = field(default_factory=nothing)

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


class OwnedTasks(msgspec.Struct, frozen=True):
    """Tasks by role, as a member has them."""

    active: Epochs = field(default_factory=nothing)
    standby: TaskSet = field(default_factory=nothing)
    warmup: TaskSet = field(default_factory=nothing)

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def overlaps(self, reported: Tasks) -> bool:
        """Whether any of them is among those reported, in the same role."""
        return (
            _overlap(self.active, reported.active)
            or _overlap(self.standby, reported.standby)
            or _overlap(self.warmup, reported.warmup)
        )

    def merged(self, other: OwnedTasks) -> OwnedTasks:
        """These and others."""
        active = {subtopology: dict(partitions) for subtopology, partitions in self.active.items()}
        for subtopology, partitions in other.active.items():
            active.setdefault(subtopology, {}).update(partitions)
        return OwnedTasks(active, _union(self.standby, other.standby), _union(self.warmup, other.warmup))


NO_TASKS = Tasks()
OWNS_NOTHING = OwnedTasks()


def task_set(tasks: Mapping[str, Collection[int]]) -> TaskSet:
    """As a value that can be kept."""
    return {subtopology: frozenset(partitions) for subtopology, partitions in tasks.items() if partitions}


def each_task(tasks: Mapping[str, Collection[int]]) -> Iterator[tuple[str, int]]:
    """All of them, one by one."""
    for subtopology, partitions in tasks.items():
        for partition in partitions:
            yield subtopology, partition


def _overlap(owned: Mapping[str, Collection[int]], reported: TaskSet) -> bool:
    return any(not partitions.isdisjoint(owned.get(subtopology, ())) for subtopology, partitions in reported.items())


def _union(one: TaskSet, other: TaskSet) -> TaskSet:
    if not other:
        return one
    return {each: one.get(each, frozenset()) | other.get(each, frozenset()) for each in {**one, **other}}
