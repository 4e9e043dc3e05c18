"""The input of an assignor (subscriptions and the last targets) and its output (the next targets)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import msgspec

from coordinator.group.assignors.java_order import member_order

#: Topic id -> partitions; without topics that have no partitions.
Target: TypeAlias = Mapping[bytes, frozenset[int]]
Targets: TypeAlias = dict[str, Target]


class MemberSpec(msgspec.Struct, frozen=True):
    """A member, as assignors see it.

    Its instance id if it is static; the ids of the topics that it reads, in the order of Java's table of their names,
    each with its number of partitions; and its last target.
    """

    instance_id: str | None
    topics: Mapping[bytes, int]
    target: Target


@dataclass(frozen=True)
class GroupSpec:
    """A group. `is_homogeneous`: all members are known to read the same topics, without comparing them."""

    members: Mapping[str, MemberSpec]
    is_homogeneous: bool

    @cached_property
    def member_ids(self) -> list[str]:
        """Return the member ids in the order of Java's hash table, which breaks ties."""
        return member_order(self.members)


Assignor: TypeAlias = Callable[[GroupSpec], Targets]
