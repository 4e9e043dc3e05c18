"""The state that one partition of `__consumer_offsets` stands for: groups and their offsets.

Refused: any change of what is stored but by `replay`, which serves records just written and records loaded alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from coordinator.clock import Now
from coordinator.effects import Effects
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.state import GroupState
from coordinator.group.cluster import Cluster, NoTopics
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.consumer.records import ConsumerRecord
from coordinator.group.modern.record import ModernRecord
from coordinator.group.offsets import Offsets
from coordinator.group.plain_commit import PlainCommit
from coordinator.group.records import (
    GroupMetadata,
    GroupRecord,
    OffsetRecord,
    StoredRecord,
    parse_record,
)
from coordinator.group.settings import GroupSettings
from coordinator.group.share.group import ShareGroup
from coordinator.group.skim import CommitSkim
from coordinator.group.streams.group import StreamsGroup
from coordinator.group.streams.records import StreamsRecord
from coordinator.timers import Timers
from protocol.errors import ErrorCode
from protocol.messages.join_group import JOIN_GROUP
from protocol.messages.sync_group import SYNC_GROUP
from protocol.records.batch import NO_PRODUCER_ID

Group: TypeAlias = ClassicGroup | ConsumerGroup | StreamsGroup | ShareGroup
GroupEffects: TypeAlias = Effects[StoredRecord]


class TimerKey(NamedTuple):
    """A deadline, of a member's session or of

    - a classic group: its join phase (`join`), its waiting for syncs (`sync`);
    - a member of a consumer group: giving up partitions (`rebalance`), and where it speaks the classic protocol coming
      back for what has changed (`join`) and for its assignment (`sync`);
    - a consumer group: resolving its regular expressions (`regex`);
    - a member of a streams group: giving up tasks (`rebalance`);
    - a streams group: its first assignment (`delay`);
    - a share group: having states begun at the share coordinator (`initialize`).
    """

    kind: Literal["session", "join", "sync", "rebalance", "regex", "delay", "initialize"]
    group_id: str
    member_id: str = ""


#: Kinds of deadlines that a member of a consumer or streams group may have.
MEMBER_DEADLINES: tuple[Literal["session", "rebalance", "join", "sync"], ...] = ("session", "rebalance", "join", "sync")


def is_unbacked(group: Group | None) -> bool:
    """Whether no record says what kind of group it is: there is none, or one made for offsets that come before it."""
    return group is None or (isinstance(group, ClassicGroup) and group.is_simple)


class GroupShard:
    """Groups whose ids hash to one partition. `timers` may be shared with other shards: keys name the group."""

    __slots__ = ("cluster", "groups", "offsets", "partition", "settings", "timers", "unknown_records")

    def __init__(
        self, partition: int, settings: GroupSettings, timers: Timers[TimerKey], cluster: Cluster | None = None
    ) -> None:
        self.partition = partition
        self.cluster = cluster or NoTopics()
        self.settings = settings
        self.timers = timers
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        #: Records that loading left alone, by what is strange about them.
        self.unknown_records: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.groups)

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The classic group of this id."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """The consumer group of this id."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def share(self, group_id: str) -> ShareGroup | None:
        """The share group of this id."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ShareGroup) else None

    def streams(self, group_id: str) -> StreamsGroup | None:
        """The streams group of this id."""
        group = self.groups.get(group_id)
        return group if isinstance(group, StreamsGroup) else None

    # -- replay -----------------------------------------------------------------------------------------------------

    #: The record of these bytes; raises UnknownRecord.
    parse = staticmethod(parse_record)

    def skim(self, data: bytes) -> CommitSkim:
        """What takes in plain commits of a piece of the log."""
        return CommitSkim(data)

    def pack(self, records: Sequence[StoredRecord]) -> bytes | None:
        """The bytes of records that are a plain commit."""
        return records.pack() if isinstance(records, PlainCommit) else None

    def replay_all(self, records: Sequence[StoredRecord], offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """`replay` records that stand one behind the other in the log, from `offset` on."""
        if (
            isinstance(records, PlainCommit)
            and producer_id < 0
            and not self.offsets.has_open_transactions(records.group_id)
        ):
            self._know(records.group_id)
            self.offsets.replay_plain(records)
            return
        for place, record in enumerate(records, offset):
            self.replay(record, place, producer_id)

    def replay(self, record: StoredRecord, offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record of the log. `producer_id` marks an offset commit that is part of a transaction."""
        if isinstance(record, OffsetRecord):
            if record.committed is not None:
                self._know(record.group_id)
            self.offsets.replay(record, offset, producer_id)
        elif isinstance(record, GroupRecord):
            self.replay_group(record.group_id, record.metadata)
        elif isinstance(record, ConsumerRecord):
            self.replay_modern(record, ConsumerGroup)
        elif isinstance(record, StreamsRecord):
            self.replay_modern(record, StreamsGroup)
        else:
            self.replay_modern(record, ShareGroup)

    def replay_group(self, group_id: str, metadata: GroupMetadata | None) -> None:
        """Take over a classic group's metadata, or remove the group."""
        if metadata is None:
            if not isinstance(self.groups.get(group_id), ShareGroup):
                self._forget(group_id)
            return
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            group = self.groups[group_id] = ClassicGroup(group_id)
        group.replay(metadata)

    def replay_modern(self, record: ModernRecord[Any], kind: type[ConsumerGroup | StreamsGroup | ShareGroup]) -> None:
        """Keep or drop what a record says of a group of this kind, or the group with the record that it began with."""
        group_id = record.group_id
        group = self.groups.get(group_id)
        if not isinstance(group, kind):
            if record.content is None or not is_unbacked(group):
                return
            group = self.groups[group_id] = kind(group_id)
        group.replay(record)  # type: ignore[arg-type] # the kinds of the group and of its record go together
        if record.content is None:
            if record.record_type == record.member_type:
                self._forget_deadlines(group_id, record.item)
            elif record.record_type == record.group_type:
                self._forget(group_id)

    def _know(self, group_id: str) -> None:
        """A group has an offset: its first makes it a simple group."""
        if group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id)

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
        elif isinstance(group, ConsumerGroup):
            del self.groups[group_id]
            self.timers.cancel(TimerKey("regex", group_id))
            for member_id in group.members:
                self._forget_deadlines(group_id, member_id)
        elif isinstance(group, ShareGroup):
            del self.groups[group_id]
            self.timers.cancel(TimerKey("initialize", group_id))
            for member_id in group.members:
                self._forget_deadlines(group_id, member_id)
        elif isinstance(group, StreamsGroup):
            del self.groups[group_id]
            self.timers.cancel(TimerKey("delay", group_id))
            for member_id in group.members:
                self._forget_deadlines(group_id, member_id)

    def _forget_deadlines(self, group_id: str, member_id: str) -> None:
        for kind in MEMBER_DEADLINES:
            self.timers.cancel(TimerKey(kind, group_id, member_id))

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
