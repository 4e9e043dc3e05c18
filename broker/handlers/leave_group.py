"""LeaveGroup v0-v5: remove members from a classic group.

Versions: v3 several members at once, static ones by instance id (KIP-345); v5 reasons (KIP-800).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.effects import Effects
from coordinator.group.classic.leave import answer_for, leave_group, members_of
from coordinator.group.shard import GroupEffects
from protocol.error_codes import ErrorCode
from protocol.messages.leave_group import LEAVE_GROUP
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator


@handles(LEAVE_GROUP)
def leave(ctx: RequestContext, request: Struct, *, groups: GroupCoordinator) -> Reply:
    if not request.group_id:
        return LEAVE_GROUP.response(error_code=ErrorCode.INVALID_GROUP_ID)
    shard = groups.at(request.group_id)
    if isinstance(shard, ErrorCode):
        return LEAVE_GROUP.response(error_code=shard)
    effects: GroupEffects = Effects()
    response = leave_group(shard, request.group_id, members_of(request, ctx.api_version), groups.now(), effects)
    code = groups.run(shard, effects)
    if code is not ErrorCode.NONE:
        return LEAVE_GROUP.response(error_code=code)
    return answer_for(response, ctx.api_version)
