"""The records of a consumer group in `__consumer_offsets` as values, and their bytes.

| type | of a | says |
|---|---|---|
| 3 | group | epoch and hash of its topics; the group's last record to go |
| 4 | group | its topics, up to Kafka 4.0: read, and removed when the group moves on |
| 5 | member | what it reads, and who it is |
| 6 | group | epoch and time of the target assignment |
| 7 | member | its target |
| 8 | member | its epoch and what it has |
| 16 | group and expression | the topics that the regular expression stands for |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct as Layout
from typing import TypeAlias

from coordinator.group.assignors.spec import Target
from coordinator.group.consumer.member import ClassicMetadata, ConsumerMember, MemberState, Owned
from coordinator.group.member_protocol import MemberProtocol
from protocol.messages.coordinator import consumer_group as messages
from protocol.schema import Message, Struct

GROUP, PARTITION_METADATA, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16
CONSUMER_GROUP_TYPES = frozenset({GROUP, PARTITION_METADATA, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX})

_PREFIX = Layout(">h")
_VALUE_VERSION = 0


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that an expression stood for at a version of the metadata, and when that was (ms since 1970)."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


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
    """A member's epochs, state and partitions."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Owned
    revoking: Owned


Content: TypeAlias = GroupEpoch | TargetEpoch | ConsumerMember | Target | Current | ResolvedRegex | Struct


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """A record of a consumer group; `content` None deletes it. `item` is a member's id or an expression, else ""."""

    group_id: str
    record_type: int
    item: str
    content: Content | None

    @property
    def key(self) -> bytes:
        key, item = _KEYS[self.record_type]
        fields = {"group_id": self.group_id} | ({item: self.item} if item else {})
        return _PREFIX.pack(self.record_type) + key.encode(0, key(**fields))

    @property
    def value(self) -> bytes | None:
        if self.content is None:
            return None
        message, to_struct, _ = _VALUES[self.record_type]
        return _PREFIX.pack(_VALUE_VERSION) + message.encode(_VALUE_VERSION, to_struct(self.content))


def parse_consumer_record(record_type: int, key: bytes, value: bytes | None) -> ConsumerRecord:
    """The record of these bytes. Raises ProtocolError."""
    message, item = _KEYS[record_type]
    stored, _ = message.decode(0, key, _PREFIX.size)
    content = None
    if value is not None:
        value_message, _, from_struct = _VALUES[record_type]
        content = from_struct(value_message.decode(_PREFIX.unpack_from(value)[0], value, _PREFIX.size)[0])
    return ConsumerRecord(stored.group_id, record_type, getattr(stored, item) if item else "", content)


# -- what decisions write ---------------------------------------------------------------------------------------------


def group_record(group_id: str, epoch: int, metadata_hash: int) -> ConsumerRecord:
    return ConsumerRecord(group_id, GROUP, "", GroupEpoch(epoch, metadata_hash))


def member_record(group_id: str, member: ConsumerMember) -> ConsumerRecord:
    return ConsumerRecord(group_id, MEMBER, member.member_id, member)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> ConsumerRecord:
    return ConsumerRecord(group_id, TARGET_EPOCH, "", TargetEpoch(epoch, timestamp_ms))


def target_record(group_id: str, member_id: str, target: Target) -> ConsumerRecord:
    return ConsumerRecord(group_id, TARGET, member_id, target)


def current_record(group_id: str, member: ConsumerMember) -> ConsumerRecord:
    current = Current(member.epoch, member.previous_epoch, member.state, member.assigned, member.revoking)
    return ConsumerRecord(group_id, CURRENT, member.member_id, current)


def regex_record(group_id: str, expression: str, resolved: ResolvedRegex) -> ConsumerRecord:
    return ConsumerRecord(group_id, REGEX, expression, resolved)


def tombstone(group_id: str, record_type: int, item: str = "") -> ConsumerRecord:
    return ConsumerRecord(group_id, record_type, item, None)


def member_tombstones(group_id: str, member_id: str) -> list[ConsumerRecord]:
    """All that is stored of a member, in the order in which it has to go."""
    return [tombstone(group_id, record_type, member_id) for record_type in (CURRENT, TARGET, MEMBER)]


# -- bytes ------------------------------------------------------------------------------------------------------------


def _member_struct(member: ConsumerMember) -> Struct:
    classic = None
    if member.classic is not None:
        protocols = [messages.ClassicProtocol(name=name, metadata=data) for name, data in member.classic.protocols]
        classic = messages.ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout_ms, supported_protocols=protocols
        )
    return messages.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=classic,
    )


def _member(stored: Struct) -> ConsumerMember:
    classic = None
    if stored.classic_member_metadata is not None:
        classic = ClassicMetadata(
            stored.classic_member_metadata.session_timeout_ms,
            tuple(MemberProtocol(p.name, p.metadata) for p in stored.classic_member_metadata.supported_protocols),
        )
    return ConsumerMember(
        member_id="",
        instance_id=stored.instance_id,
        rack_id=stored.rack_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        topic_names=frozenset(stored.subscribed_topic_names),
        topic_regex=stored.subscribed_topic_regex,
        rebalance_timeout_ms=stored.rebalance_timeout_ms,
        server_assignor=stored.server_assignor,
        classic=classic,
    )


def _target_struct(target: Target) -> Struct:
    return messages.ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            messages.TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in target.items()
        ]
    )


def _target(stored: Struct) -> Target:
    return {topic.topic_id: frozenset(topic.partitions) for topic in stored.topic_partitions}


def _current_struct(current: Current) -> Struct:
    return messages.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=current.state,
        assigned_partitions=_owned_structs(current.assigned),
        partitions_pending_revocation=_owned_structs(current.revoking),
    )


def _current(stored: Struct) -> Current:
    known = frozenset(MemberState)
    return Current(
        stored.member_epoch,
        stored.previous_member_epoch,
        MemberState(stored.state) if stored.state in known else MemberState.UNKNOWN,
        _owned(stored.assigned_partitions, stored.member_epoch),
        _owned(stored.partitions_pending_revocation, stored.member_epoch),
    )


def _owned_structs(owned: Owned) -> list[Struct]:
    return [
        messages.TopicPartitions(
            topic_id=topic_id,
            partitions=sorted(partitions),
            assignment_epochs=[partitions[partition] for partition in sorted(partitions)],
        )
        for topic_id, partitions in owned.items()
    ]


def _owned(topics: list[Struct], member_epoch: int) -> Owned:
    """Brokers before 4.3 wrote no epochs of partitions: the member's serves for all."""
    owned: dict[bytes, Mapping[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned


_KEYS: dict[int, tuple[Message, str]] = {
    GROUP: (messages.ConsumerGroupMetadataKey, ""),
    PARTITION_METADATA: (messages.ConsumerGroupPartitionMetadataKey, ""),
    MEMBER: (messages.ConsumerGroupMemberMetadataKey, "member_id"),
    TARGET_EPOCH: (messages.ConsumerGroupTargetAssignmentMetadataKey, ""),
    TARGET: (messages.ConsumerGroupTargetAssignmentMemberKey, "member_id"),
    CURRENT: (messages.ConsumerGroupCurrentMemberAssignmentKey, "member_id"),
    REGEX: (messages.ConsumerGroupRegularExpressionKey, "regular_expression"),
}

#: Record type -> (message, content to struct, struct to content).
_VALUES: dict[int, tuple[Message, Callable[..., Struct], Callable[[Struct], Content]]] = {
    GROUP: (
        messages.ConsumerGroupMetadataValue,
        lambda group: messages.ConsumerGroupMetadataValue(epoch=group.epoch, metadata_hash=group.metadata_hash),
        lambda stored: GroupEpoch(stored.epoch, stored.metadata_hash),
    ),
    PARTITION_METADATA: (messages.ConsumerGroupPartitionMetadataValue, lambda same: same, lambda same: same),
    MEMBER: (messages.ConsumerGroupMemberMetadataValue, _member_struct, _member),
    TARGET_EPOCH: (
        messages.ConsumerGroupTargetAssignmentMetadataValue,
        lambda target: messages.ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=target.epoch, assignment_timestamp=target.timestamp_ms
        ),
        lambda stored: TargetEpoch(stored.assignment_epoch, stored.assignment_timestamp),
    ),
    TARGET: (messages.ConsumerGroupTargetAssignmentMemberValue, _target_struct, _target),
    CURRENT: (messages.ConsumerGroupCurrentMemberAssignmentValue, _current_struct, _current),
    REGEX: (
        messages.ConsumerGroupRegularExpressionValue,
        lambda regex: messages.ConsumerGroupRegularExpressionValue(
            topics=sorted(regex.topics), version=regex.version, timestamp=regex.timestamp_ms
        ),
        lambda stored: ResolvedRegex(frozenset(stored.topics), stored.version, stored.timestamp),
    ),
}
