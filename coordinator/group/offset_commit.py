"""OffsetCommit and OffsetDelete: offsets are written down, or tombstones for them.

A commit is a member's of the current generation, or comes from outside: a client that assigns partitions to itself, an
administrator. Those from outside (generation -1) are taken only while the group has no members.
"""

from __future__ import annotations

from functools import lru_cache

from coordinator.clock import Now
from coordinator.group.classic import ClassicGroup
from coordinator.group.consumer import offsets as consumer
from coordinator.group.consumer.group import ConsumerGroup
from coordinator.group.rebalance import extend_session
from coordinator.group.records import CommittedOffset, OffsetRecord, StoredRecord
from coordinator.group.refused import Refused
from coordinator.group.shard import Group, GroupEffects, GroupShard
from coordinator.group.share.group import ShareGroup
from coordinator.group.state import GroupState
from coordinator.group.streams import offsets as streams
from coordinator.group.streams.group import StreamsGroup
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitResponsePartition, OffsetCommitResponseTopic
from protocol.messages.offset_delete import OffsetDeleteResponsePartition, OffsetDeleteResponseTopic
from protocol.schema import Struct

#: From this version on a missing group is called so; before, clients knew only ILLEGAL_GENERATION.
FIRST_VERSION_KNOWING_GROUP_ID_NOT_FOUND = 9
NO_RETENTION_TIME = -1
#: OffsetCommit v1 alone may say when the offset was committed.
NO_TIMESTAMP = -1

new_tuple = tuple.__new__
new_partition_response = OffsetCommitResponsePartition.new
new_topic_response = OffsetCommitResponseTopic.new


def check_commit(shard: GroupShard, request: Struct, api_version: int) -> ErrorCode:
    """Whether the sender may commit.

    Errors: ILLEGAL_GENERATION, GROUP_ID_NOT_FOUND (v9+), UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS;
    of consumer and streams groups STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION.
    """
    group: Group | None = shard.groups.get(request.group_id)
    generation: int = request.generation_id_or_member_epoch
    if group is None:
        if generation < 0:
            return ErrorCode.NONE  # a simple group comes into being with its first offset
        if api_version >= FIRST_VERSION_KNOWING_GROUP_ID_NOT_FOUND:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.ILLEGAL_GENERATION
    if isinstance(group, ClassicGroup):
        return check_commit_of(group, generation, request.member_id, request.group_instance_id)
    if isinstance(group, ConsumerGroup):
        return check_commit_of_consumers(group, request, api_version)
    if isinstance(group, StreamsGroup):
        return check_commit_of_streams(group, request, api_version)
    return ErrorCode.GROUP_ID_NOT_FOUND


def check_commit_of_consumers(group: ConsumerGroup, request: Struct, api_version: int) -> ErrorCode:
    """Whether a consumer group takes this commit: see consumer/offsets.py."""
    partitions = ((topic.topic_id, each.partition_index) for topic in request.topics for each in topic.partitions)
    epoch = request.generation_id_or_member_epoch
    try:
        consumer.check_commit(group, request.member_id, request.group_instance_id, epoch, api_version, partitions)
    except Refused as refusal:
        return refusal.code
    return ErrorCode.NONE


def check_commit_of_streams(group: StreamsGroup, request: Struct, api_version: int) -> ErrorCode:
    """Whether a streams group takes this commit: see streams/offsets.py."""
    partitions = ((topic.name, each.partition_index) for topic in request.topics for each in topic.partitions)
    try:
        streams.check_commit(group, request.member_id, request.generation_id_or_member_epoch, api_version, partitions)
    except Refused as refusal:
        return refusal.code
    return ErrorCode.NONE


def check_commit_of(group: ClassicGroup, generation: int, member_id: str, group_instance_id: str | None) -> ErrorCode:
    """Whether a classic group takes this commit."""
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation >= 0 or member_id or group_instance_id is not None:
        code = group.check_member(member_id, group_instance_id)
        if code is not ErrorCode.NONE:
            return code
        if generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
    else:
        return ErrorCode.UNKNOWN_MEMBER_ID
    # The member knows the new generation but not yet its assignment: what it read belongs to the one before.
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is GroupState.COMPLETING_REBALANCE else ErrorCode.NONE


def commit_offsets(shard: GroupShard, request: Struct, now: Now, effects: GroupEffects) -> list[Struct]:
    """Write the offsets of a commit that passed `check_commit`; gives the topics of the answer.

    The topics carry both name and id. Of single partitions: OFFSET_METADATA_TOO_LARGE. A member's commit counts as a
    sign of life.
    """
    group_id = request.group_id
    group = shard.groups.get(group_id)
    if isinstance(group, ClassicGroup) and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
        extend_session(shard, group, group.members[request.member_id], now)
    retention_ms = request.retention_time_ms
    now_ms = now.wall_ms
    expires_ms = -1 if retention_ms == NO_RETENTION_TIME else now_ms + retention_ms
    max_length = shard.settings.offset_metadata_max_length
    too_large = ErrorCode.OFFSET_METADATA_TOO_LARGE
    records: list[StoredRecord] = []
    topics = []
    for topic in request.topics:
        name, topic_id = topic.name, topic.topic_id
        partitions = []
        for partition in topic.partitions:
            index = partition.partition_index
            metadata = partition.committed_metadata or ""
            if metadata and utf16_length(metadata) > max_length:
                partitions.append(new_partition_response(partition_index=index, error_code=too_large))
                continue
            given_ms = partition.commit_timestamp
            commit_ms = now_ms if given_ms == NO_TIMESTAMP else given_ms
            offset, leader_epoch = partition.committed_offset, partition.committed_leader_epoch
            committed = new_tuple(CommittedOffset, (offset, leader_epoch, metadata, commit_ms, expires_ms, topic_id))
            records.append(new_tuple(OffsetRecord, (group_id, name, index, committed)))
            partitions.append(taken(index))
        topics.append(new_topic_response(name=name, topic_id=topic_id, partitions=partitions))
    if records:
        effects.write(records)
    return topics


@lru_cache(4096)
def taken(partition: int) -> Struct:
    """The answer for a partition of which the offset is taken: one for all commits, not to be changed."""
    return new_partition_response(partition_index=partition)


def utf16_length(text: str) -> int:
    """Length as Java counts it, in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def delete_offsets(shard: GroupShard, group: Group, topics: list[Struct], effects: GroupEffects) -> list[Struct]:
    """Write tombstones for a group's offsets; gives the topics of the answer.

    Of single partitions: GROUP_SUBSCRIBED_TO_TOPIC. Offsets that are not there are no error.
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
    """Whether there is an offset of the partition, committed or waiting for its transaction."""
    offsets = shard.offsets
    return offsets.get(group_id, topic, partition) is not None or offsets.has_pending(group_id, topic, partition)


def check_delete(group: Group | None) -> ErrorCode:
    """Whether the group's offsets can be deleted at all: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.

    A live group has to be one of consumers: of others nobody knows what they read.
    """
    if group is None or isinstance(group, ShareGroup):
        return ErrorCode.GROUP_ID_NOT_FOUND
    if isinstance(group, ClassicGroup) and group.state is not GroupState.EMPTY and not group.uses_consumer_protocol:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE
