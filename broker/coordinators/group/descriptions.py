"""What the three APIs that describe groups with server-side assignors have in common (KIP-848, KIP-932, KIP-1071)."""

from __future__ import annotations

from collections.abc import Callable

from broker.access.authorization.operations import group_operations
from broker.requests.dispatcher import RequestContext
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupShard
from protocol.errors import ErrorCode
from protocol.schema import Struct


def described(
    ctx: RequestContext,
    request: Struct,
    new_group: Callable[..., Struct],
    describe: Callable[[GroupShard, str], Struct],
    *,
    served: bool,
) -> list[Struct]:
    """Each group that was asked for, or why it cannot be described.

    `new_group` makes one of the answer, `describe` says what is known of one and raises Refused; `served`: whether the
    broker has this kind of groups.
    """

    def one(group_id: str) -> Struct:
        if not served:
            return new_group(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
        if not group_id:
            return new_group(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
        shard = ctx.broker.groups.at(group_id)
        if isinstance(shard, ErrorCode):
            return new_group(group_id=group_id, error_code=shard)
        try:
            return describe(shard, group_id)
        except Refused as refusal:
            return new_group(group_id=group_id, error_code=refusal.code, error_message=refusal.message)

    # As Kafka: those without a name, which it does not look up, come first.
    groups = [one(group_id) for group_id in sorted(request.group_ids, key=bool)]
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = group_operations(ctx, group.group_id)
    return groups
