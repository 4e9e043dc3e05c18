"""ShareGroupDescribe v1: share groups with their members (KIP-932)."""

from __future__ import annotations

from broker.authorized_operations import GROUP_OPERATIONS
from broker.dispatch import Reply, RequestContext, handles
from broker.handlers.share_group_heartbeat import is_served
from coordinator.group.refused import Refused
from coordinator.group.share.describe import describe
from protocol.errors import ErrorCode
from protocol.messages.share_group_describe import SHARE_GROUP_DESCRIBE, DescribedGroup
from protocol.schema import Struct


@handles(SHARE_GROUP_DESCRIBE)
def share_group_describe(ctx: RequestContext, request: Struct) -> Reply:
    # As Kafka: those without a name, which it does not look up, come first.
    groups = [describe_group(ctx, group_id) for group_id in sorted(request.group_ids, key=bool)]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = GROUP_OPERATIONS
    return SHARE_GROUP_DESCRIBE.response(groups=groups)


def describe_group(ctx: RequestContext, group_id: str) -> Struct:
    """One group, or why it cannot be described."""
    if not is_served(ctx):
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not group_id:
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
    shard = ctx.broker.groups.at(group_id)
    if isinstance(shard, ErrorCode):
        return DescribedGroup(group_id=group_id, error_code=shard)
    try:
        return describe(shard, group_id)
    except Refused as refusal:
        return DescribedGroup(group_id=group_id, error_code=refusal.code, error_message=refusal.message)
