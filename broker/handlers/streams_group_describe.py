"""StreamsGroupDescribe v0: describe streams groups with their topologies and members (KIP-1071)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinators.group.descriptions import described
from broker.handlers.streams_group_heartbeat import serves_streams_groups
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.group.streams.describe import describe
from protocol.messages.streams_group_describe import STREAMS_GROUP_DESCRIBE, DescribedGroup
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.metadata_cache import MetadataCache


@handles(STREAMS_GROUP_DESCRIBE)
def streams_group_describe(
    ctx: RequestContext, request: Struct, *, groups: GroupCoordinator, metadata: MetadataCache, guard: Guard | None
) -> Reply:
    served = serves_streams_groups(groups, metadata)
    found = described(groups, guard, ctx, request, DescribedGroup, describe, served=served)
    return STREAMS_GROUP_DESCRIBE.response(groups=found)
