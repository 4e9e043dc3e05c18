"""DeleteGroups v0-v2: remove groups that have no members, with their offsets (KIP-229)."""

from __future__ import annotations

from broker.dispatch import Reply, RequestContext, handles
from coordinator.effects import Effects
from coordinator.group.admin import delete_group
from coordinator.group.shard import GroupEffects
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DELETE_GROUPS, DeletableGroupResult
from protocol.schema import Struct


@handles(DELETE_GROUPS)
def delete_groups(ctx: RequestContext, request: Struct) -> Reply:
    return DELETE_GROUPS.response(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=delete(ctx, group_id))
            for group_id in dict.fromkeys(request.groups_names)
        ]
    )


def delete(ctx: RequestContext, group_id: str) -> ErrorCode:
    """Remove one group."""
    groups = ctx.broker.groups
    shard = groups.at(group_id)
    if isinstance(shard, ErrorCode):
        return shard
    effects: GroupEffects = Effects()
    code = delete_group(shard, group_id, effects)
    return groups.run(shard, effects) if code is ErrorCode.NONE else code
