"""OffsetCommit and OffsetDelete: write offsets, or tombstones for them.

A commit comes from a member of the current generation, or from outside: from a client that assigns partitions to
itself, or from an administrator. A commit from outside (generation -1) is accepted only while the group has no members.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.clock import Now
from coordinator.group.classic.group import ClassicGroup
from coordinator.group.classic.rebalance import extend_session
from coordinator.group.classic.state import GroupState
from coordinator.group.group import Group
from coordinator.group.plain_commit import PlainCommit, TopicCommit
from coordinator.group.records import CommittedOffset, OffsetRecord, StoredRecord
from coordinator.group.shard import GroupEffects, GroupShard
from protocol.error_codes import ErrorCode
from protocol.fast_path.single_commit import SingleCommit
from protocol.messages.offset_commit import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.messages.offset_delete import OffsetDeleteResponsePartition, OffsetDeleteResponseTopic
from protocol.primitives import ZERO_UUID
from protocol.schema import Struct

#: From this version on the error is GROUP_ID_NOT_FOUND; earlier clients know only ILLEGAL_GENERATION.
FIRST_VERSION_KNOWING_GROUP_ID_NOT_FOUND = 9
NO_RETENTION_TIME = -1
#: Only OffsetCommit v1 may set the commit time.
NO_TIMESTAMP = -1
#: A partition that no member owns: only a member at the group's current epoch may commit for it.
OF_NOBODY = (OffsetCommitRequestTopic(partitions=[OffsetCommitRequestPartition(partition_index=-1)]),)

new_partition_response = OffsetCommitResponsePartition.new
new_topic_response = OffsetCommitResponseTopic.new


def check_commit(
    shard: GroupShard, sender: Struct | SingleCommit, topics: Sequence[Struct], api_version: int
) -> ErrorCode:
    """Return NONE, or why the sender of a request may not commit for the partitions of these topics.

    Errors: ILLEGAL_GENERATION, GROUP_ID_NOT_FOUND (v9+), UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS;
    for consumer and streams groups STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION.
    """
    group = shard.groups.get(sender.group_id)
    if group is None:
        if sender.generation_id_or_member_epoch < 0:
            return ErrorCode.NONE  # the first offset creates a simple group
        if api_version >= FIRST_VERSION_KNOWING_GROUP_ID_NOT_FOUND:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.ILLEGAL_GENERATION
    return shard.kinds.of(group).check_commit(group, sender, topics, api_version)


def is_current(shard: GroupShard, sender: Struct | SingleCommit, api_version: int) -> bool:
    """Return whether the sender may commit for any partition. False: it depends on the partition."""
    return check_commit(shard, sender, OF_NOBODY, api_version) is ErrorCode.NONE


def touch_member(shard: GroupShard, group_id: str, member_id: str, now: Now) -> None:
    """Extend the session of a member of a classic group, because it has committed."""
    group = shard.groups.get(group_id)
    if isinstance(group, ClassicGroup) and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
        extend_session(shard, group, group.members[member_id], now)


def commit_offsets(shard: GroupShard, request: Struct, now: Now, effects: GroupEffects) -> list[Struct]:
    """Write the offsets of a commit that passed `check_commit`, and return the topics of the response.

    The topics carry both name and id. Errors of single partitions: OFFSET_METADATA_TOO_LARGE. A member's commit extends
    its session.
    """
    group_id = request.group_id
    touch_member(shard, group_id, request.member_id, now)
    plain = plain_commit(request, now)
    if plain is not None:
        if len(plain):
            effects.write(plain)
        return [
            new_topic_response(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[new_partition_response(partition_index=partition) for partition in topic.partitions],
            )
            for topic in plain.topics
        ]
    retention_ms = request.retention_time_ms
    now_ms = now.wall_ms
    expires_ms = -1 if retention_ms == NO_RETENTION_TIME else _as_long(now_ms + retention_ms)
    max_length = shard.settings.offset_metadata_max_length
    records: list[StoredRecord] = []
    topics = []
    for topic in request.topics:
        name, topic_id = topic.name, topic.topic_id
        partitions = []
        for partition in topic.partitions:
            index = partition.partition_index
            metadata = partition.committed_metadata or ""
            code = ErrorCode.NONE
            if utf16_length(metadata) > max_length:
                code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                given_ms = partition.commit_timestamp
                committed = CommittedOffset(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata,
                    now_ms if given_ms == NO_TIMESTAMP else given_ms,
                    expires_ms,
                    topic_id,
                )
                records.append(OffsetRecord(group_id, name, index, committed))
            partitions.append(new_partition_response(partition_index=index, error_code=code))
        topics.append(new_topic_response(name=name, topic_id=topic_id, partitions=partitions))
    if records:
        effects.write(records)
    return topics


def plain_commit(request: Struct, now: Now) -> PlainCommit | None:
    """Return the records of a request that has only offsets, without metadata and times; None for other requests."""
    if request.retention_time_ms != NO_RETENTION_TIME or not request.topics:
        return None
    topics = []
    for topic in request.topics:
        partitions = topic.partitions
        if topic.topic_id == ZERO_UUID or any(
            partition.committed_metadata or partition.commit_timestamp != NO_TIMESTAMP for partition in partitions
        ):
            return None
        indexes = tuple([each.partition_index for each in partitions])
        offsets = tuple([each.committed_offset for each in partitions])
        leader_epochs = tuple([each.committed_leader_epoch for each in partitions])
        topics.append(TopicCommit(topic.name, topic.topic_id, indexes, offsets, leader_epochs))
    return PlainCommit(request.group_id, now.wall_ms, topics)


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 units, as Java counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def delete_offsets(shard: GroupShard, group: Group, topics: list[Struct], effects: GroupEffects) -> list[Struct]:
    """Write tombstones for a group's offsets, and return the topics of the response.

    Errors of single partitions: GROUP_SUBSCRIBED_TO_TOPIC. A missing offset is not an error.
    """
    records: list[StoredRecord] = []
    results = []
    group_id = group.group_id
    for topic in topics:
        is_subscribed = group.is_subscribed_to(topic.name)
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else ErrorCode.NONE
        partitions = []
        for partition in topic.partitions:
            index = partition.partition_index
            partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
            if not is_subscribed and has_offset(shard, group_id, topic.name, index):
                records.append(OffsetRecord(group_id, topic.name, index, None))
        results.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    if records:
        effects.write(records)
    return results


def has_offset(shard: GroupShard, group_id: str, topic: str, partition: int) -> bool:
    """Return whether the partition has an offset, committed or in an open transaction."""
    offsets = shard.offsets
    return offsets.get(group_id, topic, partition) is not None or offsets.has_pending(group_id, topic, partition)


def check_delete(group: Group | None) -> ErrorCode:
    """Return NONE, or why the group's offsets cannot be deleted: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.

    Offsets of a group with members can be deleted only if the members are consumers: other members do not say which
    topics they read.
    """
    return ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_offset_delete()


def _as_long(number: int) -> int:
    """Return the sum of two longs with Java's overflow. As in Kafka, a huge retention ends in the past."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
