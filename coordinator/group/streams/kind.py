"""The row of streams groups in the table of the kinds of groups."""

from __future__ import annotations

from coordinator.group.shard import GroupKind
from coordinator.group.streams import deadlines, offsets
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.records import StreamsRecord

STREAMS = GroupKind(
    StreamsGroup,
    record_class=StreamsRecord,
    group_timers=("delay",),
    member_timers=("session", "rebalance"),
    on_deadline=deadlines.on_deadline,
    on_loaded=deadlines.on_loaded,
    check_commit=offsets.check_commit,
    check_fetch=offsets.check_fetch,
)
