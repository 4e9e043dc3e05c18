"""A member of a consumer group: what it reads, what it has, and how far it is on the way to its target.

Values: a decision makes a changed one and writes it down, replay puts it into the group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import TypeAlias

import msgspec
from msgspec import field

from coordinator.group.classic.member_protocol import MemberProtocol

#: Topic id -> partition -> the epoch at which the member was given it.
Owned: TypeAlias = Mapping[bytes, Mapping[int, int]]
#: Topic id -> partitions that a member says it has.
Reported: TypeAlias = Mapping[bytes, Collection[int]]

NOTHING: Owned = MappingProxyType({})
#: Epochs with a meaning of their own: of requests, and the middle one also of a static member that is away.
JOINING_EPOCH = 0
LEAVING_EPOCH = -1
AWAY_EPOCH = -2


class MemberState(IntEnum):
    """How far a member is; the values are those in the log."""

    STABLE = 0
    """Has its target."""
    UNREVOKED_PARTITIONS = 1
    """Has to give partitions up before it can go on to the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """Is at its epoch, and waits for partitions that others still have."""
    UNKNOWN = 127
    """Written by a later version."""


class ClassicMetadata(msgspec.Struct, frozen=True):
    """What a member that speaks the classic protocol has told: see migration in README."""

    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]


class ConsumerMember(msgspec.Struct, frozen=True):
    """A member. `epoch` 0: joining; `assigned`: what it may read; `revoking`: what it still has to give up.

    `topic_regex` is "" or None where there is none: as the client sent it, for it is stored so.
    """

    member_id: str
    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = ""
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has the target of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    @property
    def speaks_classic(self) -> bool:
        return self.classic is not None

    def owned(self) -> Iterator[tuple[bytes, int]]:
        """All partitions that nobody else may have: (topic id, partition)."""
        for owned in (self.assigned, self.revoking):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    yield topic_id, partition
