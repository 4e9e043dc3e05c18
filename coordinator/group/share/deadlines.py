"""What happens when a deadline of a share group or of one of its members has come.

The deadline `initialize` is not for here: it is the share coordinator that has to be asked.
"""

from __future__ import annotations

from coordinator.clock import Now
from coordinator.group.shard import GroupEffects, GroupShard, TimerKey
from coordinator.group.share.draft import Draft
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.leave import fence


def on_deadline(shard: GroupShard, group: ShareGroup, key: TimerKey, now: Now, effects: GroupEffects) -> None:
    """Act on a deadline; what it was about may have passed."""
    if key.kind == "session":
        fence(shard, group, key, now, effects)


def on_loaded(shard: GroupShard, group: ShareGroup, now: Now, effects: GroupEffects) -> None:
    """Start the sessions of all members that the log has, and go on with what was on the way."""
    draft = Draft(shard, group, now)
    for member_id in group.members:
        draft.extend_session(member_id)
    if group.states.initializing:
        draft.initialize_soon()
