"""Heartbeat v0-v4: keep a member of a classic group alive.

Versions: v3 group instance ids (KIP-345). While the group is being loaded, the answer is NONE: the member cannot be
checked yet, and sends its next heartbeat soon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.requests.dispatcher import RequestContext
from broker.requests.served_api import Reply, handles
from coordinator.group.classic.heartbeat import heartbeat as decide
from protocol.error_codes import ErrorCode
from protocol.messages.heartbeat import HEARTBEAT
from protocol.schema import Struct

if TYPE_CHECKING:
    from broker.coordinators.group.coordinator import GroupCoordinator

new_response = HEARTBEAT.response.new


@handles(HEARTBEAT)
def heartbeat(ctx: RequestContext, request: Struct, *, groups: GroupCoordinator) -> Reply:
    group_id = request.group_id
    if not group_id:
        return new_response(error_code=ErrorCode.INVALID_GROUP_ID)
    shard = groups.at(group_id)
    if isinstance(shard, ErrorCode):
        return new_response(error_code=ErrorCode.NONE if shard is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else shard)
    code = decide(shard, group_id, request.member_id, request.group_instance_id, request.generation_id, groups.now())
    groups.arm()
    return new_response(error_code=code)
