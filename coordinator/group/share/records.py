"""The records of a share group in `__consumer_offsets` as values, and their bytes (KIP-932).

| type | of a | content |
|---|---|---|
| 10 | member | its subscription, and its identity |
| 11 | group | epoch and hash of its topics; the last record to be deleted |
| 12 | group | epoch and time of the target assignment |
| 13 | member | its target |
| 14 | member | its epoch and its partitions |
| 15 | group | partitions whose states at the share coordinator exist, are initializing, or are being deleted |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import field

from coordinator.group.assignors.spec import Target
from coordinator.group.modern.record import (
    GroupEpoch,
    Kind,
    ModernRecord,
    TargetEpoch,
    group_epoch_kind,
    target_epoch_kind,
    target_kind,
    target_of,
    target_structs,
)
from coordinator.group.share.member import ShareMember
from protocol.messages.coordinator import share_group as messages
from protocol.schema import Struct

MEMBER, GROUP, TARGET_EPOCH, TARGET, CURRENT, STATES = 10, 11, 12, 13, 14, 15
_STABLE = 0


class Current(msgspec.Struct, frozen=True):
    """A member's epochs and partitions."""

    epoch: int
    previous_epoch: int
    assigned: Target


class TopicStates(NamedTuple):
    """Partitions of a topic, with its name at that time."""

    name: str
    partitions: frozenset[int]


class States(msgspec.Struct, frozen=True):
    """Initializing and initialized share-partitions by topic id, and the topics whose states are being deleted."""

    initializing: Mapping[bytes, TopicStates] = field(default_factory=dict)
    initialized: Mapping[bytes, TopicStates] = field(default_factory=dict)
    deleting: Mapping[bytes, str] = field(default_factory=dict)


Content: TypeAlias = GroupEpoch | TargetEpoch | ShareMember | Target | Current | States


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


def _current_struct(current: Current) -> Struct:
    return messages.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=_STABLE,
        assigned_partitions=target_structs(current.assigned, messages.TopicPartitions),
    )


def _current(stored: Struct) -> Current:
    return Current(stored.member_epoch, stored.previous_member_epoch, target_of(stored.assigned_partitions))


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


# -- the record -------------------------------------------------------------------------------------------------------


class ShareGroupRecord(ModernRecord[Content], frozen=True):
    """A record of a share group; `item` is a member id."""

    group_type, member_type, target_type, current_type = GROUP, MEMBER, TARGET, CURRENT
    kinds = {
        MEMBER: Kind(
            messages.ShareGroupMemberMetadataKey,
            "member_id",
            messages.ShareGroupMemberMetadataValue,
            _member_struct,
            _member,
        ),
        GROUP: group_epoch_kind(messages.ShareGroupMetadataKey, messages.ShareGroupMetadataValue),
        TARGET_EPOCH: target_epoch_kind(
            messages.ShareGroupTargetAssignmentMetadataKey, messages.ShareGroupTargetAssignmentMetadataValue
        ),
        TARGET: target_kind(
            messages.ShareGroupTargetAssignmentMemberKey,
            messages.ShareGroupTargetAssignmentMemberValue,
            messages.TopicPartition,
        ),
        CURRENT: Kind(
            messages.ShareGroupCurrentMemberAssignmentKey,
            "member_id",
            messages.ShareGroupCurrentMemberAssignmentValue,
            _current_struct,
            _current,
        ),
        STATES: Kind(
            messages.ShareGroupStatePartitionMetadataKey,
            "",
            messages.ShareGroupStatePartitionMetadataValue,
            _states_struct,
            _states,
        ),
    }


# -- records that decisions write -------------------------------------------------------------------------------------


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


tombstone = ShareGroupRecord.tombstone
member_tombstones = ShareGroupRecord.member_tombstones
