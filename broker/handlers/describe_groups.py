"""DescribeGroups v0-v6: describe classic groups with their members.

Versions: v3 authorized operations (KIP-430); v4 group instance ids (KIP-345); v6 GROUP_ID_NOT_FOUND for groups that do
not exist (KIP-1043), which were "Dead" before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.access.authorization.operations import group_operations
from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.group.admin import describe_group
from protocol.error_codes import ErrorCode
from protocol.messages.describe_groups import DESCRIBE_GROUPS, DescribedGroup
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.coordinators.group.coordinator import GroupCoordinator


@handles(DESCRIBE_GROUPS)
def describe_groups(ctx: RequestContext, request: Struct, *, groups: GroupCoordinator, guard: Guard | None) -> Reply:
    found = []
    for group_id in request.groups:
        shard = groups.at(group_id)
        if isinstance(shard, ErrorCode):
            described = DescribedGroup(group_id=group_id, error_code=shard)
        else:
            described = describe_group(shard, group_id, ctx.api_version)
        if request.include_authorized_operations and described.error_code == ErrorCode.NONE:
            described.authorized_operations = group_operations(guard, ctx, group_id)
        found.append(described)
    return DESCRIBE_GROUPS.response(groups=found)
