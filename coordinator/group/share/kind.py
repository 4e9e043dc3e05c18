"""The row of share groups in the table of the kinds of groups."""

from __future__ import annotations

from coordinator.group.shard import GroupKind
from coordinator.group.share import deadlines, offsets
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.records import ShareGroupRecord

SHARE = GroupKind(
    ShareGroup,
    record_class=ShareGroupRecord,
    group_timers=("initialize",),
    member_timers=("session",),
    on_deadline=deadlines.on_deadline,
    on_loaded=deadlines.on_loaded,
    check_commit=offsets.check_commit,
)
