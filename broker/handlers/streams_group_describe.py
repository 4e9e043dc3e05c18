"""StreamsGroupDescribe v0-v1: describe streams groups with their topologies and members (KIP-1071).

Versions: v1 the description of the topology (KIP-1331), the assignor (KIP-1357).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinators.group.descriptions import described
from broker.handlers.streams_group_heartbeat import serves_streams_groups
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.group.shard import GroupShard
from coordinator.group.streams.describe import describe
from coordinator.group.streams.descriptions import describe as add_description
from coordinator.group.streams.membership import existing_group
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

    def one(shard: GroupShard, group_id: str) -> Struct:
        group = describe(shard, group_id)
        if request.include_topology_description:
            add_description(existing_group(shard, group_id), group)
        return group

    found = described(groups, guard, ctx, request, DescribedGroup, one, served=served)
    return STREAMS_GROUP_DESCRIBE.response(groups=found)
