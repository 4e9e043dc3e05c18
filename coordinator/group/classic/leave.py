"""LeaveGroup: members leave, or an administrator removes them.

Since v3 a request names several members. It may name static members by their instance ids alone (KIP-345).
"""

from __future__ import annotations

from coordinator.clock import Now
from coordinator.group.classic import rebalance
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.rebalance import UNKNOWN_MEMBER_ID
from coordinator.group.classic.state import GroupState
from coordinator.group.consumer import classic_members
from coordinator.group.shard import GroupEffects, GroupShard
from protocol.error_codes import ErrorCode
from protocol.messages.leave_group import LEAVE_GROUP, MemberIdentity, MemberResponse
from protocol.schema import Struct


def members_of(request: Struct, api_version: int) -> list[Struct]:
    """Return the members that a request names; up to v2 there is one."""
    if api_version >= 3:
        members: list[Struct] = request.members
        return members
    return [MemberIdentity(member_id=request.member_id)]


def leave_group(shard: GroupShard, group_id: str, members: list[Struct], now: Now, effects: GroupEffects) -> Struct:
    """Remove the members and rebalance the others. The response has a code for each member.

    Errors of single members: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    consumers = shard.consumer(group_id)
    if consumers is not None:
        return LEAVE_GROUP.response(members=classic_members.leave(shard, consumers, members, now, effects))
    group = shard.classic(group_id)
    results = []
    left: list[str] = []
    for identity in members:
        code = ErrorCode.UNKNOWN_MEMBER_ID if group is None else leave(shard, group, identity, effects)
        results.append(
            MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code)
        )
        if code is ErrorCode.NONE:
            left.append(f"{identity.member_id or identity.group_instance_id} ({identity.reason or 'no reason given'})")
    if group is not None and left:
        reason = f"members left: {', '.join(left)}"
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.PREPARING_REBALANCE):
            rebalance.rebalance_or_complete(shard, group, reason, now, effects)
    return LEAVE_GROUP.response(members=results)


def leave(shard: GroupShard, group: ClassicGroup, identity: Struct, effects: GroupEffects) -> ErrorCode:
    """Remove one member. The caller rebalances the group."""
    member_id = identity.member_id
    if member_id == UNKNOWN_MEMBER_ID:
        known = group.static_members.get(identity.group_instance_id)
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = known
    elif member_id in group.pending_joins:
        rebalance.drop_member(shard, group, member_id)
        return ErrorCode.NONE
    else:
        code = group.check_member(member_id, identity.group_instance_id)
        if code is not ErrorCode.NONE:
            return code
    rebalance.drop_departed_member(shard, group, group.members[member_id], effects)
    return ErrorCode.NONE


def answer_for(response: Struct, api_version: int) -> Struct:
    """Return the response in the form of its version: up to v2 the code of the one member is the request's."""
    if api_version >= 3 or not response.members:
        return response
    return LEAVE_GROUP.response(error_code=response.members[0].error_code)
