"""A member of a streams group: a thread of an application, its tasks, and its progress towards its target.

Members are immutable values. A decision writes a changed one, and replay puts it into the group.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from msgspec import field

from coordinator.group.streams.tasks import OWNS_NOTHING, OwnedTasks


class MemberState(IntEnum):
    """The progress of a member. The values are those in the log."""

    STABLE = 1
    """Has its target."""
    UNREVOKED_TASKS = 2
    """Has to give tasks up before it can move to the next epoch."""
    UNRELEASED_TASKS = 3
    """Is at its epoch, and waits for tasks that other members still own."""
    UNKNOWN = 127
    """Written by a later version of Kafka."""


class Endpoint(NamedTuple):
    """The address at which an application answers queries of its stores (application.server)."""

    host: str
    port: int


class StreamsMember(msgspec.Struct, frozen=True):
    """A member. `process_id`: the application's process to which the thread belongs.

    A static member has an instance id. While it has left temporarily, its epoch is that of a static leave.
    """

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
        """Return whether the member has its target of that epoch."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch
