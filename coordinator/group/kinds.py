"""The table of the kinds of groups. A new kind needs a package and one row here.

Groups of the newer protocols are rare on a new broker, so their packages are imported with the first of their groups.
"""

from __future__ import annotations

from functools import cache

from coordinator.group.classic import deadlines as classic_deadlines
from coordinator.group.classic import offsets as classic_offsets
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.modern.group import ModernGroup
from coordinator.group.shard import GroupKind, GroupKinds, LazyKind

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


@cache
def _consumer() -> GroupKind[ModernGroup]:
    from coordinator.group.consumer.kind import CONSUMER

    return CONSUMER


@cache
def _streams() -> GroupKind[ModernGroup]:
    from coordinator.group.streams.kind import STREAMS

    return STREAMS


@cache
def _share() -> GroupKind[ModernGroup]:
    from coordinator.group.share.kind import SHARE

    return SHARE


LAZY_KINDS = {
    "consumer": LazyKind((3, 4, 5, 6, 7, 8, 16), _consumer),
    "streams": LazyKind((17, 19, 20, 21, 22, 23), _streams),
    "share": LazyKind((10, 11, 12, 13, 14, 15), _share),
}
GROUP_KINDS = GroupKinds(CLASSIC, LAZY_KINDS)

#: Parses the key and the value of a record of `__consumer_offsets`. Raises UnknownRecord.
parse_record = GROUP_KINDS.parse
