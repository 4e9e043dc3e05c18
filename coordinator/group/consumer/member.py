"""A member of a consumer group: its subscription, its partitions, and its progress towards its target.

Members are immutable values. A decision writes a changed one, and replay puts it into the group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import TypeAlias

import msgspec
from msgspec import field

from coordinator.group.classic.member_protocol import MemberProtocol
from coordinator.group.modern.checks import JOINING_EPOCH

#: Topic id -> partition -> the epoch at which the member got it.
Owned: TypeAlias = Mapping[bytes, Mapping[int, int]]
#: Topic id -> the partitions that a member reports as its own.
Reported: TypeAlias = Mapping[bytes, Collection[int]]

NOTHING: Owned = MappingProxyType({})


class MemberState(IntEnum):
    """The progress of a member. The values are those in the log."""

    STABLE = 0
    """Has its target."""
    UNREVOKED_PARTITIONS = 1
    """Has to give partitions up before it can move to the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """Is at its epoch, and waits for partitions that other members still own."""
    UNKNOWN = 127
    """Written by a later version of Kafka."""


class ClassicMetadata(msgspec.Struct, frozen=True):
    """The fields of a member that uses the classic protocol; README.md describes the migration."""

    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]


class ConsumerMember(msgspec.Struct, frozen=True):
    """A member. `epoch` 0: joining; `assigned`: partitions that it may read; `revoking`: those that it has to give up.

    `topic_regex` is "" or None if there is none. It is stored as the client sent it.
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
        """Return whether the member has the target of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == epoch

    @property
    def uses_classic_protocol(self) -> bool:
        return self.classic is not None

    def owned(self) -> Iterator[tuple[bytes, int]]:
        """Yield all partitions that no other member may own: (topic id, partition)."""
        for owned in (self.assigned, self.revoking):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    yield topic_id, partition
