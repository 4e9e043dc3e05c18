"""Dispatch deadlines of groups and members to the code of the group's kind."""

from __future__ import annotations

from coordinator.clock import Now
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey


def on_deadline(shard: GroupShard, key: TimerKey, now: Now, effects: GroupEffects) -> None:
    """Act on a deadline that `Timers.expire` returned. The group may no longer exist."""
    group = shard.groups.get(key.group_id)
    if group is not None:
        shard.kinds.of(group).on_deadline(shard, group, key, now, effects)


def on_loaded(shard: GroupShard, now: Now, effects: GroupEffects) -> None:
    """Start the deadlines of all groups and members once the shard is loaded."""
    for group in list(shard.groups.values()):
        shard.kinds.of(group).on_loaded(shard, group, now, effects)
