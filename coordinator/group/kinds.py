"""The table of the kinds of groups. A new kind needs a package and one row here."""

from __future__ import annotations

from coordinator.group.classic import deadlines as classic_deadlines
from coordinator.group.classic import offsets as classic_offsets
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.consumer import deadlines as consumer_deadlines
from coordinator.group.consumer import offsets as consumer_offsets
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.records import ConsumerRecord
from coordinator.group.shard import GroupKind, GroupKinds
from coordinator.group.share import deadlines as share_deadlines
from coordinator.group.share import offsets as share_offsets
from coordinator.group.share.group import ShareGroup
from coordinator.group.share.records import ShareGroupRecord
from coordinator.group.streams import deadlines as streams_deadlines
from coordinator.group.streams import offsets as streams_offsets
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.records import StreamsRecord

CLASSIC = GroupKind(
    ClassicGroup,
    record_class=None,
    group_timers=("join", "sync"),
    member_timers=("session",),
    on_deadline=classic_deadlines.on_deadline,
    on_loaded=classic_deadlines.on_loaded,
    on_unload=classic_deadlines.on_unload,
    check_commit=classic_offsets.check_commit,
)
CONSUMER = GroupKind(
    ConsumerGroup,
    record_class=ConsumerRecord,
    group_timers=("regex",),
    member_timers=("session", "rebalance", "join", "sync"),
    on_deadline=consumer_deadlines.on_deadline,
    on_loaded=consumer_deadlines.on_loaded,
    check_commit=consumer_offsets.check_commit,
    check_fetch=consumer_offsets.check_fetch,
)
STREAMS = GroupKind(
    StreamsGroup,
    record_class=StreamsRecord,
    group_timers=("delay",),
    member_timers=("session", "rebalance"),
    on_deadline=streams_deadlines.on_deadline,
    on_loaded=streams_deadlines.on_loaded,
    check_commit=streams_offsets.check_commit,
    check_fetch=streams_offsets.check_fetch,
)
SHARE = GroupKind(
    ShareGroup,
    record_class=ShareGroupRecord,
    group_timers=("initialize",),
    member_timers=("session",),
    on_deadline=share_deadlines.on_deadline,
    on_loaded=share_deadlines.on_loaded,
    check_commit=share_offsets.check_commit,
)
GROUP_KINDS = GroupKinds(CLASSIC, (CONSUMER, STREAMS, SHARE))

#: Parses the key and the value of a record of `__consumer_offsets`. Raises UnknownRecord.
parse_record = GROUP_KINDS.parse
