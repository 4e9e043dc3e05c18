"""The state that one partition of `__consumer_offsets` stands for: groups and their offsets.

Refused: any change of what is stored but by `replay`, which serves records just written and records loaded alike.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal, NamedTuple, TypeAlias

from coordinator.clock import Now
from coordinator.effects import Effects
from coordinator.group.classic import ClassicGroup
from coordinator.group.foreign import ForeignGroup
from coordinator.group.offsets import Offsets
from coordinator.group.records import ForeignRecord, GroupMetadata, GroupRecord, OffsetRecord, StoredRecord
from coordinator.group.settings import GroupSettings
from coordinator.group.state import GroupState
from coordinator.timers import Timers
from protocol.errors import ErrorCode
from protocol.messages.join_group import JOIN_GROUP
from protocol.messages.sync_group import SYNC_GROUP

NO_PRODUCER_ID = -1

Group: TypeAlias = ClassicGroup | ForeignGroup
GroupEffects: TypeAlias = Effects[StoredRecord]


class TimerKey(NamedTuple):
    """A deadline: of a group's join phase, of its waiting for syncs, or of a member's session."""

    kind: Literal["session", "join", "sync"]
    group_id: str
    member_id: str = ""


class GroupShard:
    """Groups whose ids hash to one partition. `timers` may be shared with other shards: keys name the group."""

    __slots__ = ("groups", "offsets", "partition", "settings", "timers", "unknown_records")

    def __init__(self, partition: int, settings: GroupSettings, timers: Timers[TimerKey]) -> None:
        self.partition = partition
        self.settings = settings
        self.timers = timers
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        #: Records that loading left alone, by what is strange about them.
        self.unknown_records: Counter[str] = Counter()

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The classic group of this id."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # -- replay -----------------------------------------------------------------------------------------------------

    def replay(self, record: StoredRecord, offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record of the log. `producer_id` marks an offset commit that is part of a transaction."""
        if isinstance(record, OffsetRecord):
            self.replay_offset(record, offset, producer_id)
        elif isinstance(record, GroupRecord):
            self.replay_group(record.group_id, record.metadata)
        else:
            self.replay_foreign(record)

    def replay_offset(self, record: OffsetRecord, offset: int, producer_id: int) -> None:
        """Keep a committed offset; a group that has no other record comes into being as a simple one."""
        if record.committed is not None and record.group_id not in self.groups:
            self.groups[record.group_id] = ClassicGroup(record.group_id)
        self.offsets.replay(record, offset, producer_id)

    def replay_group(self, group_id: str, metadata: GroupMetadata | None) -> None:
        """Take over a classic group's metadata, or remove the group."""
        if metadata is None:
            self._forget(group_id)
            return
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            group = self.groups[group_id] = ClassicGroup(group_id)
        group.replay(metadata)

    def replay_foreign(self, record: ForeignRecord) -> None:
        """Keep, replace or drop a record of a group with another protocol; without records the group is gone."""
        group = self.groups.get(record.group_id)
        if not isinstance(group, ForeignGroup):
            # A simple group is backed by no record: it was made for offsets that come before the group's own records.
            if record.value is None or (group is not None and not group.is_simple):
                return
            group = self.groups[record.group_id] = ForeignGroup(record.group_id)
        group.replay(record)
        if not group.records:
            del self.groups[record.group_id]

    def replay_transaction_end(self, producer_id: int, committed: bool) -> None:
        """A transaction's marker: its offsets take effect, or are forgotten."""
        self.offsets.replay_transaction_end(producer_id, committed)

    def _forget(self, group_id: str) -> None:
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            del self.groups[group_id]
            self.timers.cancel(TimerKey("join", group_id))
            self.timers.cancel(TimerKey("sync", group_id))
            for member_id in (*group.members, *group.pending_joins):
                self.timers.cancel(TimerKey("session", group_id, member_id))

    # -- coming and going -------------------------------------------------------------------------------------------

    def unload(self, now: Now, effects: GroupEffects) -> None:
        """Give the shard up: parked requests are answered NOT_COORDINATOR, so that clients look elsewhere."""
        code = ErrorCode.NOT_COORDINATOR
        for group_id, group in list(self.groups.items()):
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    joined = group.park_join(member, None)
                    effects.reply(joined, JOIN_GROUP.response(error_code=code, member_id=member.member_id))
                    effects.reply(member.awaiting_sync, SYNC_GROUP.response(error_code=code))
                    member.awaiting_sync = None
                group.move_to(GroupState.DEAD, now.wall_ms)
                self._forget(group_id)
        self.groups.clear()
        self.offsets = Offsets()
