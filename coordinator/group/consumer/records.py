"""The records of a consumer group in `__consumer_offsets` as values, and their bytes.

| type | of a | content |
|---|---|---|
| 3 | group | epoch and hash of its topics; the last record to be deleted |
| 4 | group | its topics, up to Kafka 4.0: read, and deleted with the group's next change |
| 5 | member | its subscription, and its identity |
| 6 | group | epoch and time of the target assignment |
| 7 | member | its target |
| 8 | member | its epoch and its partitions |
| 16 | group and expression | the topics that the regular expression matches |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from coordinator.group.assignors.spec import Target
from coordinator.group.classic.member_protocol import MemberProtocol
from coordinator.group.consumer.member import ClassicMetadata, ConsumerMember, MemberState, Owned
from coordinator.group.modern.record import (
    GroupEpoch,
    Kind,
    ModernRecord,
    TargetEpoch,
    group_epoch_kind,
    target_epoch_kind,
    target_kind,
)
from protocol.messages.coordinator import consumer_group as messages
from protocol.schema import Struct

GROUP, PARTITION_METADATA, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16


class ResolvedRegex(msgspec.Struct, frozen=True):
    """The topics that an expression matched at a version of the metadata, and when that was (ms since 1970)."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class Current(msgspec.Struct, frozen=True):
    """A member's epochs, state and partitions."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Owned
    revoking: Owned


Content: TypeAlias = GroupEpoch | TargetEpoch | ConsumerMember | Target | Current | ResolvedRegex | Struct


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
    """Return owned partitions. Brokers before 4.3 wrote no epochs of partitions: the member's epoch serves for all."""
    owned: dict[bytes, Mapping[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned


def _regex_struct(regex: ResolvedRegex) -> Struct:
    return messages.ConsumerGroupRegularExpressionValue(
        topics=sorted(regex.topics), version=regex.version, timestamp=regex.timestamp_ms
    )


def _regex(stored: Struct) -> ResolvedRegex:
    return ResolvedRegex(frozenset(stored.topics), stored.version, stored.timestamp)


# -- the record -------------------------------------------------------------------------------------------------------


class ConsumerRecord(ModernRecord[Content], frozen=True):
    """A record of a consumer group; `item` is a member id or an expression."""

    group_type, member_type, target_type, current_type = GROUP, MEMBER, TARGET, CURRENT
    kinds = {
        GROUP: group_epoch_kind(messages.ConsumerGroupMetadataKey, messages.ConsumerGroupMetadataValue),
        PARTITION_METADATA: Kind(
            messages.ConsumerGroupPartitionMetadataKey,
            "",
            messages.ConsumerGroupPartitionMetadataValue,
            lambda same: same,
            lambda same: same,
        ),
        MEMBER: Kind(
            messages.ConsumerGroupMemberMetadataKey,
            "member_id",
            messages.ConsumerGroupMemberMetadataValue,
            _member_struct,
            _member,
        ),
        TARGET_EPOCH: target_epoch_kind(
            messages.ConsumerGroupTargetAssignmentMetadataKey, messages.ConsumerGroupTargetAssignmentMetadataValue
        ),
        TARGET: target_kind(
            messages.ConsumerGroupTargetAssignmentMemberKey,
            messages.ConsumerGroupTargetAssignmentMemberValue,
            messages.TopicPartition,
        ),
        CURRENT: Kind(
            messages.ConsumerGroupCurrentMemberAssignmentKey,
            "member_id",
            messages.ConsumerGroupCurrentMemberAssignmentValue,
            _current_struct,
            _current,
        ),
        REGEX: Kind(
            messages.ConsumerGroupRegularExpressionKey,
            "regular_expression",
            messages.ConsumerGroupRegularExpressionValue,
            _regex_struct,
            _regex,
        ),
    }


# -- records that decisions write -------------------------------------------------------------------------------------


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


tombstone = ConsumerRecord.tombstone
member_tombstones = ConsumerRecord.member_tombstones
