"""What an assignor is given and what it gives: subscriptions and the last target, and the next target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import msgspec

from coordinator.group.assignors.java_order import member_order

#: Topic id -> partitions; topics without partitions are left out.
Target: TypeAlias = Mapping[bytes, frozenset[int]]
Targets: TypeAlias = dict[str, Target]


class MemberSpec(msgspec.Struct, frozen=True):
    """A member: its instance id if it is static, the ids of the topics that it reads with the numbers of their
    partitions, in the order of Java's table of their names, and what it was given last.
    """

    instance_id: str | None
    topics: Mapping[bytes, int]
    target: Target


@dataclass(frozen=True)
class GroupSpec:
    """A group. `is_homogeneous`: all members read the same topics, as far as the group knows without comparing them."""

    members: Mapping[str, MemberSpec]
    is_homogeneous: bool

    @cached_property
    def member_ids(self) -> list[str]:
        """In the order of Java's hash table, which breaks ties."""
        return member_order(self.members)


Assignor: TypeAlias = Callable[[GroupSpec], Targets]
