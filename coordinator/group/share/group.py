"""A share group (KIP-932), as its records define it.

Only `replay` changes stored state. `checked_version`, `revision` and `settled_at` are not stored, and are lost with a
restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum

from msgspec.structs import replace

from coordinator.group.assignors.spec import Target
from coordinator.group.modern.group import ModernGroup
from coordinator.group.modern.record import GroupEpoch, ModernRecord, TargetEpoch
from coordinator.group.share import records as stored
from coordinator.group.share.member import NOTHING, ShareMember
from coordinator.group.share.records import Current, ShareGroupRecord, States

#: The epoch of a new group; its first members bump it.
FIRST_EPOCH = 1


class ShareGroupState(Enum):
    """States of a share group. The values are the names that clients see."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup(ModernGroup):
    """The group. `targets` belong to `target_epoch`; a member without a target gets no partitions.

    - `checked_version`: version of the topics for which the metadata hash was last computed; None: not since loading.
    - `revision`: number of replayed records.
    - `settled_at`: the revision and the version of the topics at which a heartbeat found nothing to change.
    """

    __slots__ = (
        "checked_version",
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "revision",
        "settled_at",
        "states",
        "subscribers",
        "target_epoch",
        "target_timestamp_ms",
        "targets",
    )

    group_type = "share"
    stores_offsets = False
    expires = False
    is_removed_with_classic = False

    def __init__(self, group_id: str, records: Iterable[ShareGroupRecord] = ()) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH
        self.target_timestamp_ms = 0
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Target] = {}
        self.states = States()
        #: Topic -> number of members that read it.
        self.subscribers: Counter[str] = Counter()
        self.checked_version: int | None = None
        self.revision = 0
        self.settled_at: tuple[int, int] | None = None
        for record in records:
            self.replay(record)

    @property
    def may_become_classic(self) -> bool:
        return False

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether any member reads the topic."""
        return topic in self.subscribers

    def target_of(self, member_id: str) -> Target:
        return self.targets.get(member_id, NOTHING)

    def topics_with(self, old: ShareMember | None, new: ShareMember) -> set[str]:
        """Return the topics that are read once a member has changed."""
        counts = self.subscribers.copy()
        counts.subtract(() if old is None else old.topic_names)
        counts.update(new.topic_names)
        return {name for name, count in counts.items() if count > 0}

    def share_partitions(self) -> Iterator[tuple[bytes, int]]:
        """Yield all partitions with a state, or whose state is being initialized."""
        for topics in (self.states.initialized, self.states.initializing):
            for topic_id, topic in topics.items():
                for partition in sorted(topic.partitions):
                    yield topic_id, partition

    # -- replay -----------------------------------------------------------------------------------------------------

    def replay(self, record: ModernRecord[object]) -> None:
        """Apply a record. The shard itself removes the group on a tombstone of type GROUP."""
        self.revision += 1
        content, member_id = record.content, record.item
        if record.record_type == stored.MEMBER:
            self._replay_member(member_id, content if isinstance(content, ShareMember) else None)
        elif record.record_type == stored.CURRENT:
            current = content if isinstance(content, Current) else Current(-1, -1, NOTHING)
            self._replay_current(member_id, current, is_gone=content is None)
        elif isinstance(content, GroupEpoch):
            self.epoch, self.metadata_hash = content.epoch, content.metadata_hash
        elif record.record_type == stored.TARGET_EPOCH:
            target = content if isinstance(content, TargetEpoch) else TargetEpoch(-1, 0)
            self.target_epoch, self.target_timestamp_ms = target.epoch, target.timestamp_ms
        elif record.record_type == stored.STATES:
            self.states = content if isinstance(content, States) else States()
        elif record.record_type == stored.TARGET:
            if content is None:
                self.targets.pop(member_id, None)
            else:
                self.targets[member_id] = content  # type: ignore[assignment] # a Target, by the record's type

    def _replay_member(self, member_id: str, content: ShareMember | None) -> None:
        """Apply a member's own fields; its epoch and its assignment are in another record."""
        old = self.members.pop(member_id, None) if content is None else self.members.get(member_id)
        if old is not None:
            self.subscribers.subtract(old.topic_names)
        if content is not None:
            known = old or ShareMember(member_id)
            self.members[member_id] = replace(
                content,
                member_id=member_id,
                epoch=known.epoch,
                previous_epoch=known.previous_epoch,
                assigned=known.assigned,
            )
            self.subscribers.update(content.topic_names)
        self.subscribers = +self.subscribers

    def _replay_current(self, member_id: str, current: Current, *, is_gone: bool) -> None:
        old = self.members.get(member_id)
        if old is None and is_gone:
            return
        self.members[member_id] = replace(
            old or ShareMember(member_id),
            epoch=current.epoch,
            previous_epoch=current.previous_epoch,
            assigned=current.assigned,
        )

    # -- removal ----------------------------------------------------------------------------------------------------

    def tombstones(self) -> list[ShareGroupRecord]:
        """Return the records that delete the group, in the order in which they have to be written."""
        records = [each for member_id in self.members for each in stored.member_tombstones(self.group_id, member_id)]
        records.append(stored.tombstone(self.group_id, stored.TARGET_EPOCH))
        records.append(stored.tombstone(self.group_id, stored.STATES))
        records.append(stored.tombstone(self.group_id, stored.GROUP))
        return records
