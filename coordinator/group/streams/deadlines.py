"""Deadlines of streams groups and their members."""

from __future__ import annotations

from coordinator.clock import Now
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from coordinator.group.streams.draft import Draft
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.leave import fence
from coordinator.group.streams.member import MemberState
from coordinator.group.streams.target import first_target


def on_deadline(shard: GroupShard, group: StreamsGroup, key: TimerKey, now: Now, effects: GroupEffects) -> None:
    """Act on a deadline. The state that it was set for may have passed."""
    if key.kind == "delay":
        first_target(Draft(shard, group, now), effects)
    elif key.kind == "session":
        fence(shard, group, key, "its session timed out", now, effects)
    elif key.kind == "rebalance":
        member = group.members.get(key.member_id)
        if member is not None and member.state is MemberState.UNREVOKED_TASKS and member.epoch >= 0:
            fence(shard, group, key, "it did not give its tasks up within its rebalance timeout", now, effects)


def on_loaded(shard: GroupShard, group: StreamsGroup, now: Now, effects: GroupEffects) -> None:
    """Start the deadlines of all loaded members."""
    draft = Draft(shard, group, now)
    for member in group.members.values():
        draft.extend_session(member.member_id)
        if member.state is MemberState.UNREVOKED_TASKS:
            draft.watch_revocation(member)
