"""ShareGroupDescribe v1: describe share groups with their members (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.coordinators.group.descriptions import described
from broker.coordinators.share.requests import serves_share_groups
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.group.share.describe import describe
from protocol.messages.share_group_describe import SHARE_GROUP_DESCRIBE, DescribedGroup
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.metadata_cache import MetadataCache
    from config import BrokerConfig


@handles(SHARE_GROUP_DESCRIBE)
def share_group_describe(
    ctx: RequestContext,
    request: Struct,
    *,
    metadata: MetadataCache,
    config: BrokerConfig,
    groups: GroupCoordinator,
    guard: Guard | None,
) -> Reply:
    served = serves_share_groups(metadata, config)
    found = described(groups, guard, ctx, request, DescribedGroup, describe, served=served)
    return SHARE_GROUP_DESCRIBE.response(groups=found)
