"""The common part of the three APIs that describe groups with server-side assignors (KIP-848, KIP-932, KIP-1071)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.access.authorization.operations import group_operations
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupShard
from protocol.error_codes import ErrorCode
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.access.authorization.guard import Guard
    from broker.coordinators.group.coordinator import GroupCoordinator
    from broker.requests.context import RequestContext


def described(
    groups: GroupCoordinator,
    guard: Guard | None,
    ctx: RequestContext,
    request: Struct,
    new_group: Callable[..., Struct],
    describe: Callable[[GroupShard, str], Struct],
    *,
    served: bool,
) -> list[Struct]:
    """Return a description of each requested group, or the error that it has.

    Args:
        new_group: creates a group of the response.
        describe: describes a group of a shard; raises Refused.
        served: whether the broker supports this kind of group.
    """

    def one(group_id: str) -> Struct:
        if not served:
            return new_group(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
        if not group_id:
            return new_group(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
        shard = groups.at(group_id)
        if isinstance(shard, ErrorCode):
            return new_group(group_id=group_id, error_code=shard)
        try:
            return describe(shard, group_id)
        except Refused as refusal:
            return new_group(group_id=group_id, error_code=refusal.code, error_message=refusal.message)

    # As in Kafka, groups without an id come first: Kafka does not look them up.
    found = [one(group_id) for group_id in sorted(request.group_ids, key=bool)]
    if request.include_authorized_operations:
        for group in found:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = group_operations(guard, ctx, group.group_id)
    return found
