"""Records of modern groups in `__consumer_offsets` as values, and their bytes: the common part.

A key is an int16 type and the key itself, a value an int16 version and the value itself. Each protocol has a table of
its record types: consumer/records.py, share/records.py, streams/records.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct as Layout
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import msgspec

from coordinator.group.assignors.spec import Target
from protocol.schema import Message, Struct, StructType

_PREFIX = Layout(">h")
_VALUE_VERSION = 0

C = TypeVar("C", covariant=True)


class Kind(NamedTuple):
    """The layout of one type of record. `item`: the field of the key beside the group id; "" if there is none."""

    key: Message
    item: str
    value: Message
    to_struct: Callable[[Any], Struct]
    from_struct: Callable[[Struct], Any]


class ModernRecord(msgspec.Struct, Generic[C], frozen=True):
    """A record of a group; `content` None deletes it.

    `item` is a member id or an expression; "" if the record is about the whole group.
    """

    group_id: str
    record_type: int
    item: str
    content: C | None

    kinds: ClassVar[Mapping[int, Kind]]
    #: Record types that all protocols have.
    group_type: ClassVar[int]
    member_type: ClassVar[int]
    target_type: ClassVar[int]
    current_type: ClassVar[int]

    @property
    def key(self) -> bytes:
        kind = self.kinds[self.record_type]
        fields = {"group_id": self.group_id} | ({kind.item: self.item} if kind.item else {})
        return _PREFIX.pack(self.record_type) + kind.key.encode(0, kind.key(**fields))

    @property
    def value(self) -> bytes | None:
        if self.content is None:
            return None
        kind = self.kinds[self.record_type]
        return _PREFIX.pack(_VALUE_VERSION) + kind.value.encode(_VALUE_VERSION, kind.to_struct(self.content))

    @classmethod
    def parse(cls, record_type: int, key: bytes, value: bytes | None) -> Self:
        """Parse a record. Raises ProtocolError."""
        kind = cls.kinds[record_type]
        stored, _ = kind.key.decode(0, key, _PREFIX.size)
        content = None
        if value is not None:
            content = kind.from_struct(kind.value.decode(_PREFIX.unpack_from(value)[0], value, _PREFIX.size)[0])
        return cls(stored.group_id, record_type, getattr(stored, kind.item) if kind.item else "", content)

    @classmethod
    def tombstone(cls, group_id: str, record_type: int, item: str = "") -> Self:
        """Return the record that deletes another one."""
        return cls(group_id, record_type, item, None)

    @classmethod
    def member_tombstones(cls, group_id: str, member_id: str) -> list[Self]:
        """Return the records that delete all of a member, in the order in which they have to be written."""
        types = (cls.current_type, cls.target_type, cls.member_type)
        return [cls.tombstone(group_id, record_type, member_id) for record_type in types]


# -- common contents --------------------------------------------------------------------------------------------------


class GroupEpoch(msgspec.Struct, frozen=True):
    """A group's epoch, and the hash of its topics."""

    epoch: int
    metadata_hash: int


class TargetEpoch(msgspec.Struct, frozen=True):
    """The epoch of the group's targets, and when they were computed (ms since 1970)."""

    epoch: int
    timestamp_ms: int


def group_epoch_kind(key: Message, value: Message) -> Kind:
    """Return the layout of records with a GroupEpoch."""
    return Kind(
        key,
        "",
        value,
        lambda group: value(epoch=group.epoch, metadata_hash=group.metadata_hash),
        lambda stored: GroupEpoch(stored.epoch, stored.metadata_hash),
    )


def target_epoch_kind(key: Message, value: Message) -> Kind:
    """Return the layout of records with a TargetEpoch."""
    return Kind(
        key,
        "",
        value,
        lambda target: value(assignment_epoch=target.epoch, assignment_timestamp=target.timestamp_ms),
        lambda stored: TargetEpoch(stored.assignment_epoch, stored.assignment_timestamp),
    )


def target_kind(key: Message, value: Message, topic: StructType) -> Kind:
    """Return the layout of records with a member's Target: topic ids and partitions."""
    return Kind(
        key,
        "member_id",
        value,
        lambda target: value(topic_partitions=target_structs(target, topic)),
        lambda stored: target_of(stored.topic_partitions),
    )


def target_structs(target: Target, topic: StructType) -> list[Struct]:
    """Return a target as the structs of a message."""
    return [topic(topic_id=topic_id, partitions=sorted(partitions)) for topic_id, partitions in target.items()]


def target_of(stored: list[Struct]) -> Target:
    """Return the target in the structs of a message."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in stored}
