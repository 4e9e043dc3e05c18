"""Deadlines of classic groups and their members, and the answers to parked requests when a shard is given up."""

from __future__ import annotations

from coordinator.clock import Now
from coordinator.group.classic import rebalance
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.state import GroupState
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from protocol.error_codes import ErrorCode
from protocol.messages.join_group import JOIN_GROUP
from protocol.messages.sync_group import SYNC_GROUP


def on_deadline(shard: GroupShard, group: ClassicGroup, key: TimerKey, now: Now, effects: GroupEffects) -> None:
    """End a session, a join phase or the wait for SyncGroup requests."""
    if key.kind == "session":
        rebalance.on_session_deadline(shard, group, key.member_id, now, effects)
    elif key.kind == "join":
        rebalance.on_join_deadline(shard, group, now, effects)
    else:
        rebalance.on_sync_deadline(shard, group, now, effects)


def on_loaded(shard: GroupShard, group: ClassicGroup, now: Now, effects: GroupEffects) -> None:
    """Start the sessions of all members. A group above `group.max.size` rebalances, to shrink."""
    for member in group.members.values():
        rebalance.extend_session(shard, group, member, now)
    if len(group.members) > shard.settings.max_size:
        reason = f"{len(group.members)} members are more than the {shard.settings.max_size} allowed"
        rebalance.prepare(shard, group, reason, now, effects)


def on_unload(group: ClassicGroup, now: Now, effects: GroupEffects) -> None:
    """Answer parked requests with NOT_COORDINATOR, so that clients look for the new coordinator."""
    code = ErrorCode.NOT_COORDINATOR
    for member in group.members.values():
        joined = group.take_join(member)
        effects.reply(joined, JOIN_GROUP.response(error_code=code, member_id=member.member_id))
        effects.reply(member.awaiting_sync, SYNC_GROUP.response(error_code=code))
        member.awaiting_sync = None
    group.move_to(GroupState.DEAD, now.wall_ms)
