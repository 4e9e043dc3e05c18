"""ConsumerGroupDescribe v0-v1: consumer groups with their members (KIP-848).

Versions: v1 tells which members still speak the classic protocol (KIP-1099).
"""

from __future__ import annotations

from broker.apis import Reply, handles
from broker.dispatch import RequestContext
from broker.groups.coordinator import has_consumer_groups
from broker.groups.descriptions import described
from coordinator.group.consumer.describe import describe
from protocol.messages.consumer_group_describe import CONSUMER_GROUP_DESCRIBE, DescribedGroup
from protocol.schema import Struct


@handles(CONSUMER_GROUP_DESCRIBE)
def consumer_group_describe(ctx: RequestContext, request: Struct) -> Reply:
    groups = described(ctx, request, DescribedGroup, describe, served=has_consumer_groups(ctx.broker))
    return CONSUMER_GROUP_DESCRIBE.response(groups=groups)
