"""ShareGroupDescribe v1: share groups with their members (KIP-932)."""

from __future__ import annotations

from broker.coordinators.group.descriptions import described
from broker.coordinators.share.requests import is_served
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.group.share.describe import describe
from protocol.messages.share_group_describe import SHARE_GROUP_DESCRIBE, DescribedGroup
from protocol.schema import Struct


@handles(SHARE_GROUP_DESCRIBE)
def share_group_describe(ctx: RequestContext, request: Struct) -> Reply:
    groups = described(ctx, request, DescribedGroup, describe, served=is_served(ctx))
    return SHARE_GROUP_DESCRIBE.response(groups=groups)
