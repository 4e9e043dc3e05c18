"""ConsumerGroupDescribe v0-v1: describe consumer groups with their members (KIP-848).

Versions: v1 shows which members use the classic protocol (KIP-1099).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinators.group.coordinator import has_consumer_groups
from broker.coordinators.group.descriptions import described
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.group.consumer.describe import describe
from protocol.messages.consumer_group_describe import CONSUMER_GROUP_DESCRIBE, DescribedGroup
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.metadata_cache import MetadataCache


@handles(CONSUMER_GROUP_DESCRIBE)
def consumer_group_describe(
    ctx: RequestContext, request: Struct, *, groups: GroupCoordinator, metadata: MetadataCache, guard: Guard | None
) -> Reply:
    found = described(
        groups, guard, ctx, request, DescribedGroup, describe, served=has_consumer_groups(groups, metadata)
    )
    return CONSUMER_GROUP_DESCRIBE.response(groups=found)
