"""A member of a streams group: a thread of an application, what it has, and how far it is on the way to its target.

Values: a decision makes a changed one and writes it down, replay puts it into the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from msgspec import field

from coordinator.group.streams.tasks import OWNS_NOTHING, OwnedTasks

#: Epochs with a meaning of their own, of requests.
JOINING_EPOCH = 0
LEAVING_EPOCH = -1
AWAY_EPOCH = -2


class MemberState(IntEnum):
    """How far a member is; the values are those in the log."""

    STABLE = 1
    """Has its target."""
    UNREVOKED_TASKS = 2
    """Has to give tasks up before it can go on to the next epoch."""
    UNRELEASED_TASKS = 3
    """Is at its epoch, and waits for tasks that others still have."""
    UNKNOWN = 127
    """Written by a later version."""


class Endpoint(NamedTuple):
    """Where an application answers queries of its stores (application.server)."""

    host: str
    port: int


class StreamsMember(msgspec.Struct, frozen=True):
    """One member. `process_id`: of the application's process that it is a thread of."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    assigned: OwnedTasks = OWNS_NOTHING
    revoking: OwnedTasks = OWNS_NOTHING

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether it has its target of that epoch."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch
