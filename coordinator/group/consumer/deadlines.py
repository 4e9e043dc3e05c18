"""Deadlines of consumer groups and their members."""

from __future__ import annotations

from coordinator.clock import Now
from coordinator.group.consumer.draft import Draft
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.leave import fence
from coordinator.group.consumer.member import MemberState
from coordinator.group.consumer.regex import resolve_regexes
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey


def on_deadline(shard: GroupShard, group: ConsumerGroup, key: TimerKey, now: Now, effects: GroupEffects) -> None:
    """Act on a deadline. The state that it was set for may have passed."""
    if key.kind == "regex":
        resolve_regexes(shard, group, now, effects)
    elif key.kind == "session":
        fence(shard, group, key, "its session timed out", now, effects)
    elif key.kind == "join":
        fence(shard, group, key, "it did not join again within its rebalance timeout", now, effects)
    elif key.kind == "sync":
        fence(shard, group, key, "it did not ask for its assignment in time", now, effects)
    else:
        member = group.members.get(key.member_id)
        if member is not None and member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch >= 0:
            fence(shard, group, key, "it did not give its partitions up within its rebalance timeout", now, effects)


def on_loaded(shard: GroupShard, group: ConsumerGroup, now: Now, effects: GroupEffects) -> None:
    """Start the deadlines of all loaded members, and the interval until expressions are resolved again."""
    group.resolved_tick_ms = now.tick_ms
    draft = Draft(shard, group, now)
    for member in group.members.values():
        draft.extend_session(member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            draft.watch_revocation(member)
