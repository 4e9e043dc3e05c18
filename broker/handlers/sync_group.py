"""SyncGroup v0-v5: submit or receive the assignment of a generation.

Versions: v3 group instance ids (KIP-345); v5 protocol type and name, which are mandatory then. The answer waits for the
leader's assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinators.group.parked import ParkedSync
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.effects import Effects
from coordinator.group.classic.sync import sync_error, sync_group
from coordinator.group.shard import GroupEffects
from protocol.error_codes import ErrorCode
from protocol.messages.sync_group import SYNC_GROUP
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator

FIRST_VERSION_NAMING_PROTOCOLS = 5


@handles(SYNC_GROUP)
def sync(ctx: RequestContext, request: Struct, *, groups: GroupCoordinator) -> Reply:
    names_protocol = request.protocol_type is not None and request.protocol_name is not None
    if ctx.api_version >= FIRST_VERSION_NAMING_PROTOCOLS and not names_protocol:
        return sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not request.group_id:
        return sync_error(ErrorCode.INVALID_GROUP_ID)
    shard = groups.at(request.group_id)
    if isinstance(shard, ErrorCode):
        return sync_error(shard)
    parked = ParkedSync(ctx.api_version)
    effects: GroupEffects = Effects()
    sync_group(shard, request, parked, groups.now(), effects)
    groups.run(shard, effects)
    return parked.deferred
