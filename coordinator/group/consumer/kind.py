"""The row of consumer groups in the table of the kinds of groups."""

from __future__ import annotations

from coordinator.group.consumer import deadlines, offsets
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.records import ConsumerRecord
from coordinator.group.shard import GroupKind

CONSUMER = GroupKind(
    ConsumerGroup,
    record_class=ConsumerRecord,
    group_timers=("regex",),
    member_timers=("session", "rebalance", "join", "sync"),
    on_deadline=deadlines.on_deadline,
    on_loaded=deadlines.on_loaded,
    check_commit=offsets.check_commit,
    check_fetch=offsets.check_fetch,
)
