"""ConsumerGroupDescribe v0-v1: consumer groups with their members (KIP-848).

Versions: v1 tells which members still speak the classic protocol (KIP-1099).
"""

from __future__ import annotations

from broker.coordinators.group.coordinator import has_consumer_groups
from broker.coordinators.group.descriptions import described
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.group.consumer.describe import describe
from protocol.messages.consumer_group_describe import CONSUMER_GROUP_DESCRIBE, DescribedGroup
from protocol.schema import Struct


@handles(CONSUMER_GROUP_DESCRIBE)
def consumer_group_describe(ctx: RequestContext, request: Struct) -> Reply:
    groups = described(
        ctx, request, DescribedGroup, describe, served=has_consumer_groups(ctx.broker.groups, ctx.broker.metadata)
    )
    return CONSUMER_GROUP_DESCRIBE.response(groups=groups)
