"""The shortcut for ConsumerGroupHeartbeat requests that say no more than that a member lives, which nearly all do.

It does what broker.handlers.consumer_group_heartbeat does for a member that has nothing to be told, and nothing else:
all others it leaves to the handler by answering None, before anything was changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.coordinators.group.coordinator import has_consumer_groups
from broker.network.java_address import java_address
from broker.requests.prefix_cache import LearnedHeads
from coordinator.group.consumer.heartbeat import refresh_session_if_unchanged
from coordinator.group.modern.caller import Caller
from protocol.errors import ErrorCode
from protocol.shortcuts.steady_heartbeat import SteadyHeartbeats

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.metadata_cache import MetadataCache
    from broker.network.connection import Connection
    from runtime.timers import Timers


def steady_heartbeat(
    version: int, *, groups: GroupCoordinator, metadata: MetadataCache, timers: Timers, guard: Guard | None
) -> Callable[[Connection, memoryview, int, int], bytes | None] | None:
    """Return the shortcut of a version (`broker.requests.served_api.Shortcut`); None with an authorizer."""
    if guard is not None:
        return None
    heads = SteadyHeartbeats(version)
    read, learn = heads.read, LearnedHeads(heads, timers).learn

    def serve(connection: Connection, frame: memoryview, position: int, correlation_id: int) -> bytes | None:
        """The answer to the request in `frame`; None: not for this path."""
        steady = read(frame)
        if steady is None or not has_consumer_groups(groups, metadata):
            return None
        shard = groups.at(steady.group_id)
        if isinstance(shard, ErrorCode):
            return None
        caller = Caller(steady.client_id, java_address(connection.client_host))
        interval_ms = refresh_session_if_unchanged(shard, steady, caller, groups.now())
        if interval_ms is None:
            return None
        if steady.unlearned:
            learn(steady)
        groups.arm()
        return steady.answer(correlation_id, interval_ms)

    return serve
