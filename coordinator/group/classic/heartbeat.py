"""Heartbeat: extend a member's session, and report whether the member has to join again."""

from __future__ import annotations

from coordinator.clock import Now
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.state import GroupState
from coordinator.group.consumer import classic_members
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.refused import Refused
from coordinator.group.shard import GroupShard, TimerKey
from protocol.error_codes import ErrorCode


def heartbeat(
    shard: GroupShard, group_id: str, member_id: str, group_instance_id: str | None, generation: int, now: Now
) -> ErrorCode:
    """Extend the member's session.

    It writes nothing and answers at once. It is the most frequent request of this package. Errors: UNKNOWN_MEMBER_ID,
    FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS (the session is extended).
    """
    group = shard.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        if not isinstance(group, ConsumerGroup):
            return ErrorCode.UNKNOWN_MEMBER_ID
        try:
            return classic_members.heartbeat(shard, group, member_id, group_instance_id, generation, now)
        except Refused as refusal:
            return refusal.code
    member = group.members.get(member_id)
    if member is None or group_instance_id is not None:
        code = group.check_member(member_id, group_instance_id)
        if code is not ErrorCode.NONE:
            return code
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    assert member is not None
    shard.timers.schedule(TimerKey("session", group_id, member_id), now.tick_ms + member.session_timeout_ms)
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.PREPARING_REBALANCE else ErrorCode.NONE
