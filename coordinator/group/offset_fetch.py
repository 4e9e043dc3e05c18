"""OffsetFetch: the offsets that a group has committed.

With `require_stable` (KIP-447) a partition with an offset in an open transaction gets UNSTABLE_OFFSET_COMMIT.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.group.records import CommittedOffset
from coordinator.group.shard import GroupShard
from protocol.error_codes import ErrorCode
from protocol.messages.offset_fetch import OffsetFetchResponsePartitions, OffsetFetchResponseTopics
from protocol.primitives import ZERO_UUID
from protocol.schema import Struct

NO_OFFSET = -1

new_partition = OffsetFetchResponsePartitions.new


def fetch_offsets(shard: GroupShard, group_id: str, topics: Iterable[Struct], require_stable: bool) -> list[Struct]:
    """Return the offsets of the requested partitions; NO_OFFSET where none is committed or the group does not exist.

    `topics` have name, topic_id (zero if unknown) and partition_indexes. An offset of an earlier topic of the same name
    is ignored.
    """
    return [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                fetch_partition(shard, group_id, topic.name, index, topic.topic_id, require_stable)
                for index in topic.partition_indexes
            ],
        )
        for topic in topics
    ]


def fetch_partition(
    shard: GroupShard, group_id: str, topic: str, index: int, topic_id: bytes, require_stable: bool
) -> Struct:
    """Return the response for one partition."""
    if require_stable and shard.offsets.has_pending(group_id, topic, index):
        return partition_error(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    committed = shard.offsets.get(group_id, topic, index)
    if committed is None or is_of_another_topic(committed, topic_id):
        return partition_error(index, ErrorCode.NONE)
    return partition_offset(index, committed)


def fetch_all_offsets(shard: GroupShard, group_id: str, require_stable: bool) -> list[Struct]:
    """Return all offsets of a group, by topic name; the topic ids are zero."""
    topics = []
    for name, partitions in shard.offsets.of_group(group_id).items():
        answers = [
            partition_error(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            if require_stable and shard.offsets.has_pending(group_id, name, index)
            else partition_offset(index, committed)
            for index, committed in partitions.items()
        ]
        topics.append(OffsetFetchResponseTopics(name=name, partitions=answers))
    return topics


def is_of_another_topic(committed: CommittedOffset, topic_id: bytes) -> bool:
    """Return whether both topic ids are known and differ."""
    return ZERO_UUID not in (topic_id, committed.topic_id) and topic_id != committed.topic_id


def partition_offset(index: int, committed: CommittedOffset) -> Struct:
    """Return the response with a partition's committed offset."""
    return new_partition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def partition_error(index: int, code: ErrorCode) -> Struct:
    """Return the response for a partition without an offset. NONE: no offset is committed."""
    return new_partition(
        partition_index=index, committed_offset=NO_OFFSET, committed_leader_epoch=-1, metadata="", error_code=code
    )
