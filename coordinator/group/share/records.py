"""The records of a share group in `__consumer_offsets` as values, and their bytes (KIP-932).

| type | of a | says |
|---|---|---|
| 10 | member | what it reads, and who it is |
| 11 | group | epoch and hash of its topics; the group's last record to go |
| 12 | group | epoch and time of the target assignment |
| 13 | member | its target |
| 14 | member | its epoch and what it has |
| 15 | group | which partitions have a state at the share coordinator, are to get one, or are to lose it |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from struct import Struct as Layout
from typing import NamedTuple, TypeAlias

from coordinator.group.assignors.spec import Target
from coordinator.group.share.member import ShareMember
from protocol.messages.coordinator import share_group as messages
from protocol.schema import Message, Struct

MEMBER, GROUP, TARGET_EPOCH, TARGET, CURRENT, STATES = 10, 11, 12, 13, 14, 15
SHARE_GROUP_TYPES = frozenset({MEMBER, GROUP, TARGET_EPOCH, TARGET, CURRENT, STATES})
_STABLE = 0

_PREFIX = Layout(">h")
_VALUE_VERSION = 0


@dataclass(frozen=True, slots=True)
class GroupEpoch:
    """A group's epoch, and the hash of the topics that it is about."""

    epoch: int
    metadata_hash: int


@dataclass(frozen=True, slots=True)
class TargetEpoch:
    """The epoch that targets are of, and when they were computed (ms since 1970)."""

    epoch: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Current:
    """A member's epochs and partitions."""

    epoch: int
    previous_epoch: int
    assigned: Target


class TopicStates(NamedTuple):
    """Partitions of a topic, with the name that it had."""

    name: str
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True)
class States:
    """Share-partitions by topic id: to get a state, with a state; and names of topics whose states are to go."""

    initializing: Mapping[bytes, TopicStates] = field(default_factory=dict)
    initialized: Mapping[bytes, TopicStates] = field(default_factory=dict)
    deleting: Mapping[bytes, str] = field(default_factory=dict)


Content: TypeAlias = GroupEpoch | TargetEpoch | ShareMember | Target | Current | States


@dataclass(frozen=True, slots=True)
class ShareGroupRecord:
    """A record of a share group; `content` None deletes it. `member_id` is "" where it is the group's."""

    group_id: str
    record_type: int
    member_id: str
    content: Content | None

    @property
    def key(self) -> bytes:
        key, is_members = _KEYS[self.record_type]
        fields = {"group_id": self.group_id} | ({"member_id": self.member_id} if is_members else {})
        return _PREFIX.pack(self.record_type) + key.encode(0, key(**fields))

    @property
    def value(self) -> bytes | None:
        if self.content is None:
            return None
        message, to_struct, _ = _VALUES[self.record_type]
        return _PREFIX.pack(_VALUE_VERSION) + message.encode(_VALUE_VERSION, to_struct(self.content))


def parse_share_group_record(record_type: int, key: bytes, value: bytes | None) -> ShareGroupRecord:
    """The record of these bytes. Raises ProtocolError."""
    message, is_members = _KEYS[record_type]
    stored, _ = message.decode(0, key, _PREFIX.size)
    content = None
    if value is not None:
        value_message, _, from_struct = _VALUES[record_type]
        content = from_struct(value_message.decode(_PREFIX.unpack_from(value)[0], value, _PREFIX.size)[0])
    return ShareGroupRecord(stored.group_id, record_type, stored.member_id if is_members else "", content)


# -- what decisions write ---------------------------------------------------------------------------------------------


def group_record(group_id: str, epoch: int, metadata_hash: int) -> ShareGroupRecord:
    return ShareGroupRecord(group_id, GROUP, "", GroupEpoch(epoch, metadata_hash))


def member_record(group_id: str, member: ShareMember) -> ShareGroupRecord:
    return ShareGroupRecord(group_id, MEMBER, member.member_id, member)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> ShareGroupRecord:
    return ShareGroupRecord(group_id, TARGET_EPOCH, "", TargetEpoch(epoch, timestamp_ms))


def target_record(group_id: str, member_id: str, target: Target) -> ShareGroupRecord:
    return ShareGroupRecord(group_id, TARGET, member_id, target)


def current_record(group_id: str, member: ShareMember) -> ShareGroupRecord:
    current = Current(member.epoch, member.previous_epoch, member.assigned)
    return ShareGroupRecord(group_id, CURRENT, member.member_id, current)


def states_record(group_id: str, states: States) -> ShareGroupRecord:
    return ShareGroupRecord(group_id, STATES, "", states)


def tombstone(group_id: str, record_type: int, member_id: str = "") -> ShareGroupRecord:
    return ShareGroupRecord(group_id, record_type, member_id, None)


def member_tombstones(group_id: str, member_id: str) -> list[ShareGroupRecord]:
    """All that is stored of a member, in the order in which it has to go."""
    return [tombstone(group_id, record_type, member_id) for record_type in (CURRENT, TARGET, MEMBER)]


# -- bytes ------------------------------------------------------------------------------------------------------------


def _member_struct(member: ShareMember) -> Struct:
    return messages.ShareGroupMemberMetadataValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
    )


def _member(stored: Struct) -> ShareMember:
    return ShareMember(
        member_id="",
        rack_id=stored.rack_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        topic_names=frozenset(stored.subscribed_topic_names),
    )


def _target_struct(target: Target) -> Struct:
    return messages.ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[
            messages.TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in target.items()
        ]
    )


def _target(topics: list[Struct]) -> Target:
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}


def _current_struct(current: Current) -> Struct:
    return messages.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=_STABLE,
        assigned_partitions=[
            messages.TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in current.assigned.items()
        ],
    )


def _states_struct(states: States) -> Struct:
    return messages.ShareGroupStatePartitionMetadataValue(
        initializing_topics=_infos(states.initializing),
        initialized_topics=_infos(states.initialized),
        deleting_topics=[
            messages.TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in states.deleting.items()
        ],
    )


def _infos(topics: Mapping[bytes, TopicStates]) -> list[Struct]:
    return [
        messages.TopicPartitionsInfo(topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions))
        for topic_id, topic in topics.items()
    ]


def _states(stored: Struct) -> States:
    initializing, initialized = (
        {info.topic_id: TopicStates(info.topic_name, frozenset(info.partitions)) for info in infos}
        for infos in (stored.initializing_topics, stored.initialized_topics)
    )
    return States(initializing, initialized, {info.topic_id: info.topic_name for info in stored.deleting_topics})


#: Record type -> (message of the key, whether a member is in it).
_KEYS: dict[int, tuple[Message, bool]] = {
    MEMBER: (messages.ShareGroupMemberMetadataKey, True),
    GROUP: (messages.ShareGroupMetadataKey, False),
    TARGET_EPOCH: (messages.ShareGroupTargetAssignmentMetadataKey, False),
    TARGET: (messages.ShareGroupTargetAssignmentMemberKey, True),
    CURRENT: (messages.ShareGroupCurrentMemberAssignmentKey, True),
    STATES: (messages.ShareGroupStatePartitionMetadataKey, False),
}

#: Record type -> (message of the value, content to struct, struct to content).
_VALUES: dict[int, tuple[Message, Callable[..., Struct], Callable[[Struct], Content]]] = {
    MEMBER: (messages.ShareGroupMemberMetadataValue, _member_struct, _member),
    GROUP: (
        messages.ShareGroupMetadataValue,
        lambda group: messages.ShareGroupMetadataValue(epoch=group.epoch, metadata_hash=group.metadata_hash),
        lambda stored: GroupEpoch(stored.epoch, stored.metadata_hash),
    ),
    TARGET_EPOCH: (
        messages.ShareGroupTargetAssignmentMetadataValue,
        lambda target: messages.ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=target.epoch, assignment_timestamp=target.timestamp_ms
        ),
        lambda stored: TargetEpoch(stored.assignment_epoch, stored.assignment_timestamp),
    ),
    TARGET: (
        messages.ShareGroupTargetAssignmentMemberValue,
        _target_struct,
        lambda stored: _target(stored.topic_partitions),
    ),
    CURRENT: (
        messages.ShareGroupCurrentMemberAssignmentValue,
        _current_struct,
        lambda stored: Current(stored.member_epoch, stored.previous_member_epoch, _target(stored.assigned_partitions)),
    ),
    STATES: (messages.ShareGroupStatePartitionMetadataValue, _states_struct, _states),
}
