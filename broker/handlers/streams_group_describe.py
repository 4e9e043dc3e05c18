"""StreamsGroupDescribe v0: streams groups with their topologies and members (KIP-1071)."""

from __future__ import annotations

from broker.coordinators.group.descriptions import described
from broker.handlers.streams_group_heartbeat import is_served
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.group.streams.describe import describe
from protocol.messages.streams_group_describe import STREAMS_GROUP_DESCRIBE, DescribedGroup
from protocol.schema import Struct


@handles(STREAMS_GROUP_DESCRIBE)
def streams_group_describe(ctx: RequestContext, request: Struct) -> Reply:
    groups = described(ctx, request, DescribedGroup, describe, served=is_served(ctx))
    return STREAMS_GROUP_DESCRIBE.response(groups=groups)
