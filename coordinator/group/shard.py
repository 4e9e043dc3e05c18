"""The state of one partition of `__consumer_offsets`: groups and their offsets.

Only `replay` changes stored state, both for records just written and for records that are loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar, cast

from coordinator.clock import Now
from coordinator.effects import Effects
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.cluster import Cluster, NoTopics
from coordinator.group.group import Group
from coordinator.group.modern.group import ModernGroup
from coordinator.group.modern.record import ModernRecord
from coordinator.group.offsets import Offsets
from coordinator.group.plain_commit import PlainCommit
from coordinator.group.records import GroupMetadata, GroupRecord, OffsetRecord, StoredRecord, parse_record
from coordinator.group.settings import GroupSettings
from coordinator.group.skim import CommitSkim
from coordinator.timers import Timers
from protocol.error_codes import ErrorCode
from protocol.fast_path.single_commit import SingleCommit
from protocol.records.batch import NO_PRODUCER_ID
from protocol.schema import Struct

if TYPE_CHECKING:
    from coordinator.group.consumer.group import ConsumerGroup
    from coordinator.group.share.group import ShareGroup
    from coordinator.group.streams.group import StreamsGroup

GroupEffects: TypeAlias = Effects[StoredRecord]
# Covariant, so that one table has all kinds. It is sound because `GroupKinds.of` finds a row by the type of its group.
G = TypeVar("G", bound=Group, covariant=True)


class TimerKey(NamedTuple):
    """A deadline of a group, or of one of its members. The group's kind names the kinds of deadlines it uses.

    - `session`: the session of a member. All kinds of groups have it.
    - `join`: the end of a classic group's join phase; or the time until which a consumer group's member of the classic
      protocol has to join again.
    - `sync`: the end of the wait for SyncGroup requests, of a classic group or of such a member.
    - `rebalance`: the time until which a member has to give up partitions (consumer groups) or tasks (streams groups).
    - `regex`: a consumer group's next resolution of its regular expressions.
    - `delay`: a streams group's first assignment.
    - `initialize`: a share group's request to the share coordinator, which initializes the states of partitions.
    """

    kind: str
    group_id: str
    member_id: str = ""


def _nothing_parked(group: Group, now: Now, effects: GroupEffects) -> None:
    """Do nothing: members of the newer protocols have no parked requests."""


def _may_fetch(group: Group, member_id: str | None, epoch: int) -> ErrorCode:
    """Return NONE: anybody may fetch the offsets of the group."""
    return ErrorCode.NONE


@dataclass(frozen=True)
class GroupKind(Generic[G]):
    """A kind of group: its classes, its deadlines, and the functions by which shards serve its groups.

    Attributes:
        record_class: the class of the kind's records; None for classic groups, whose record has a layout of its own.
        group_timers: kinds of deadlines that a group has.
        member_timers: kinds of deadlines that a member has.
        on_deadline: acts on a deadline of the group or of a member.
        on_loaded: starts deadlines once a group is loaded.
        check_commit: returns NONE, or why the sender of an OffsetCommit request may not commit for these topics.
        check_fetch: returns NONE, or why the member of this id and epoch may not fetch offsets.
        on_unload: answers parked requests when the shard is given up.

    The functions of a row are called with groups of its class only.
    """

    group_class: type[G]
    record_class: type[ModernRecord[object]] | None
    group_timers: tuple[str, ...]
    member_timers: tuple[str, ...]
    on_deadline: Callable[[GroupShard, G, TimerKey, Now, GroupEffects], None]
    on_loaded: Callable[[GroupShard, G, Now, GroupEffects], None]
    check_commit: Callable[[G, Struct | SingleCommit, Sequence[Struct], int], ErrorCode]
    check_fetch: Callable[[G, str | None, int], ErrorCode] = _may_fetch
    on_unload: Callable[[G, Now, GroupEffects], None] = _nothing_parked


class LazyKind(NamedTuple):
    """A kind of modern groups whose package is imported with the first of its groups, and its types of records."""

    record_types: tuple[int, ...]
    load: Callable[[], GroupKind[ModernGroup]]


class GroupKinds:
    """All kinds of groups, found by their groups and by their records. `modern` has the newer kinds by group type."""

    __slots__ = ("_by_record_type", "_loaded", "_modern", "parse")

    def __init__(self, classic: GroupKind[ClassicGroup], modern: Mapping[str, LazyKind]) -> None:
        self._modern = modern
        self._by_record_type = {record_type: kind for kind in modern.values() for record_type in kind.record_types}
        self._loaded: dict[str, GroupKind[Group]] = {classic.group_class.group_type: classic}
        #: Parses the key and the value of a record. Raises UnknownRecord.
        self.parse: Callable[[bytes | None, bytes | None], StoredRecord] = partial(parse_record, self._record_class)

    def of(self, group: Group) -> GroupKind[Group]:
        """Return the kind of a group."""
        kind = self._loaded.get(group.group_type)
        if kind is None:
            kind = self._loaded[group.group_type] = self._modern[group.group_type].load()
        return kind

    def group_class(self, record: ModernRecord[object]) -> type[ModernGroup]:
        """Return the class of the group to which a record belongs."""
        return self._by_record_type[record.record_type].load().group_class

    def _record_class(self, record_type: int) -> type[ModernRecord[object]] | None:
        """Return the class of records of this type; None for a type that no kind has."""
        kind = self._by_record_type.get(record_type)
        return None if kind is None else kind.load().record_class


class GroupShard:
    """The groups whose ids hash to one partition. Shards may share `timers`, because each key names its group."""

    __slots__ = ("cluster", "groups", "kinds", "offsets", "partition", "settings", "timers", "unknown_records")

    def __init__(
        self,
        kinds: GroupKinds,
        partition: int,
        settings: GroupSettings,
        timers: Timers[TimerKey],
        cluster: Cluster | None = None,
    ) -> None:
        self.kinds = kinds
        self.partition = partition
        self.cluster = cluster or NoTopics()
        self.settings = settings
        self.timers = timers
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        #: Records that loading ignored, by the reason.
        self.unknown_records: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.groups)

    def classic(self, group_id: str) -> ClassicGroup | None:
        """Return the classic group of this id, or None."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def consumer(self, group_id: str) -> ConsumerGroup | None:
        """Return the consumer group of this id, or None."""
        group = self.groups.get(group_id)
        return cast("ConsumerGroup", group) if group is not None and group.group_type == "consumer" else None

    def share(self, group_id: str) -> ShareGroup | None:
        """Return the share group of this id, or None."""
        group = self.groups.get(group_id)
        return cast("ShareGroup", group) if group is not None and group.group_type == "share" else None

    def streams(self, group_id: str) -> StreamsGroup | None:
        """Return the streams group of this id, or None."""
        group = self.groups.get(group_id)
        return cast("StreamsGroup", group) if group is not None and group.group_type == "streams" else None

    # -- replay -----------------------------------------------------------------------------------------------------

    def parse(self, key: bytes | None, value: bytes | None) -> StoredRecord:
        """Parse a record of the log. Raises UnknownRecord; the log keeps such a record, and the shard ignores it."""
        return self.kinds.parse(key, value)

    def skim(self, data: bytes) -> CommitSkim:
        """Return an object that reads the plain commits of a piece of the log."""
        return CommitSkim(data)

    def pack(self, records: Sequence[StoredRecord]) -> bytes | None:
        """Return the bytes of the records if they are a plain commit, else None."""
        return records.pack() if isinstance(records, PlainCommit) else None

    def replay_all(self, records: Sequence[StoredRecord], offset: int, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply records with consecutive offsets, from `offset` on."""
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
            self._replay_classic(record.group_id, record.metadata)
        else:
            self._replay_modern(record)

    def _replay_classic(self, group_id: str, metadata: GroupMetadata | None) -> None:
        group = self.groups.get(group_id)
        if metadata is None:
            if group is not None and group.is_removed_with_classic:
                self._remove(group)
            return
        if not isinstance(group, ClassicGroup):
            group = self.groups[group_id] = ClassicGroup(group_id)
        group.replay(metadata)

    def _replay_modern(self, record: ModernRecord[object]) -> None:
        group_class = self.kinds.group_class(record)
        group = self.groups.get(record.group_id)
        if not isinstance(group, group_class):
            if record.content is None or not (group is None or group.is_simple):
                return
            group = self.groups[record.group_id] = group_class(record.group_id)
        group.replay(record)
        if record.content is None:
            if record.record_type == record.member_type:
                self._cancel_member_timers(group, record.item)
            elif record.record_type == record.group_type:
                self._remove(group)

    def _know(self, group_id: str) -> None:
        """Create a simple group for the first offset of an unknown group id."""
        if group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id)

    def replay_transaction_end(self, producer_id: int, committed: bool) -> None:
        """Apply the marker that ends a transaction: its offsets take effect, or are dropped."""
        self.offsets.replay_transaction_end(producer_id, committed)

    def _remove(self, group: Group) -> None:
        """Remove a group with its deadlines."""
        del self.groups[group.group_id]
        for kind in self.kinds.of(group).group_timers:
            self.timers.cancel(TimerKey(kind, group.group_id))
        for member_id in group.ids_with_deadlines():
            self._cancel_member_timers(group, member_id)

    def _cancel_member_timers(self, group: Group, member_id: str) -> None:
        for kind in self.kinds.of(group).member_timers:
            self.timers.cancel(TimerKey(kind, group.group_id, member_id))

    # -- unloading --------------------------------------------------------------------------------------------------

    def unload(self, now: Now, effects: GroupEffects) -> None:
        """Give the shard up: answer parked requests with NOT_COORDINATOR, and forget all groups and offsets."""
        for group in list(self.groups.values()):
            self.kinds.of(group).on_unload(group, now, effects)
            self._remove(group)
        self.offsets = Offsets()
