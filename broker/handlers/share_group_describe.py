"""ShareGroupDescribe v1: share groups with their members (KIP-932)."""

from __future__ import annotations

from broker.apis import Reply, handles
from broker.dispatch import RequestContext
from broker.groups.descriptions import described
from broker.shares.requests import is_served
from coordinator.group.share.describe import describe
from protocol.messages.share_group_describe import SHARE_GROUP_DESCRIBE, DescribedGroup
from protocol.schema import Struct


@handles(SHARE_GROUP_DESCRIBE)
def share_group_describe(ctx: RequestContext, request: Struct) -> Reply:
    groups = described(ctx, request, DescribedGroup, describe, served=is_served(ctx))
    return SHARE_GROUP_DESCRIBE.response(groups=groups)
