"""Deadlines of share groups and their members.

The group coordinator itself acts on the deadline `initialize`, with a request to the share coordinator.
"""

from __future__ import annotations

from coordinator.clock import Now
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from coordinator.group.share.draft import Draft
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.leave import fence


def on_deadline(shard: GroupShard, group: ShareGroup, key: TimerKey, now: Now, effects: GroupEffects) -> None:
    """Act on a deadline. The state that it was set for may have passed."""
    if key.kind == "session":
        fence(shard, group, key, now, effects)


def on_loaded(shard: GroupShard, group: ShareGroup, now: Now, effects: GroupEffects) -> None:
    """Start the sessions of all loaded members, and continue to initialize states."""
    draft = Draft(shard, group, now)
    for member_id in group.members:
        draft.extend_session(member_id)
    if group.states.initializing:
        draft.initialize_soon()
