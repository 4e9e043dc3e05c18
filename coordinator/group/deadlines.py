"""What happens when a deadline of a group or of a member has come."""

from __future__ import annotations

from coordinator.clock import Now
from coordinator.group.classic import rebalance
from coordinator.group.consumer import deadlines as consumer
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from coordinator.group.share import deadlines as share
from coordinator.group.streams import deadlines as streams


def on_deadline(shard: GroupShard, key: TimerKey, now: Now, effects: GroupEffects) -> None:
    """Act on a deadline that `Timers.expire` gave out; the group may be gone."""
    consumers = shard.consumer(key.group_id)
    if consumers is not None:
        consumer.on_deadline(shard, consumers, key, now, effects)
        return
    streaming = shard.streams(key.group_id)
    if streaming is not None:
        streams.on_deadline(shard, streaming, key, now, effects)
        return
    sharing = shard.share(key.group_id)
    if sharing is not None:
        share.on_deadline(shard, sharing, key, now, effects)
        return
    group = shard.classic(key.group_id)
    if group is None:
        return
    if key.kind == "session":
        rebalance.on_session_deadline(shard, group, key.member_id, now, effects)
    elif key.kind == "join":
        rebalance.on_join_deadline(shard, group, now, effects)
    else:
        rebalance.on_sync_deadline(shard, group, now, effects)


def on_loaded(shard: GroupShard, now: Now, effects: GroupEffects) -> None:
    """Start the sessions of all members that the log has; groups above `group.max.size` rebalance, to shrink."""
    for group_id in list(shard.groups):
        consumers = shard.consumer(group_id)
        if consumers is not None:
            consumer.on_loaded(shard, consumers, now)
            continue
        streaming = shard.streams(group_id)
        if streaming is not None:
            streams.on_loaded(shard, streaming, now)
            continue
        sharing = shard.share(group_id)
        if sharing is not None:
            share.on_loaded(shard, sharing, now)
            continue
        group = shard.classic(group_id)
        if group is None:
            continue
        for member in group.members.values():
            rebalance.extend_session(shard, group, member, now)
        if len(group.members) > shard.settings.max_size:
            reason = f"{len(group.members)} members are more than the {shard.settings.max_size} allowed"
            rebalance.prepare(shard, group, reason, now, effects)
