"""TxnOffsetCommit: offsets that take effect when their transaction is committed.

Older clients send no membership. A field that is not sent is not checked; a field that is sent has to be right.
"""

from __future__ import annotations

from coordinator.clock import Now
from coordinator.group.offset_commit import check_commit, utf16_length
from coordinator.group.records import CommittedOffset, OffsetRecord, StoredRecord
from coordinator.group.shard import GroupEffects, GroupShard
from coordinator.shard import Producer
from protocol.error_codes import ErrorCode
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.txn_offset_commit import TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic
from protocol.primitives import ZERO_UUID
from protocol.schema import Struct

#: The first version of OffsetCommit that has an error code for each case.
_FULL_CHECK_VERSION = 9
#: From this version on, the client knows OffsetCommit's error codes (KIP-1319).
FIRST_VERSION_WITH_CODES_OF_OFFSET_COMMIT = 6

#: OffsetCommit's error codes, and what a client of an older version gets.
_OLDER_CODES = {
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH: ErrorCode.ILLEGAL_GENERATION,
}


def check_transactional_commit(shard: GroupShard, request: Struct, api_version: int) -> ErrorCode:
    """Return NONE, or why the sender may not commit.

    Errors: INVALID_GROUP_ID, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID; from v6 on GROUP_ID_NOT_FOUND
    and STALE_MEMBER_EPOCH instead of ILLEGAL_GENERATION.
    """
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    epoch = request.generation_id_or_member_epoch
    is_anonymous = epoch < 0 and not request.member_id and request.group_instance_id is None
    group = shard.groups.get(request.group_id)
    if is_anonymous and (group is None or group.stores_offsets):
        return ErrorCode.NONE
    sender = OFFSET_COMMIT.request(
        group_id=request.group_id,
        generation_id_or_member_epoch=epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
    )
    code = check_commit(shard, sender, [with_id(shard, topic) for topic in request.topics], _FULL_CHECK_VERSION)
    if code is ErrorCode.REBALANCE_IN_PROGRESS:
        return ErrorCode.NONE  # a transaction may commit offsets while a group rebalances
    return code if api_version >= FIRST_VERSION_WITH_CODES_OF_OFFSET_COMMIT else _OLDER_CODES.get(code, code)


def with_id(shard: GroupShard, topic: Struct) -> Struct:
    """Return the topic as in OffsetCommit: the check of a consumer group's members looks partitions up by topic id."""
    known = shard.cluster.topic(topic.name)
    return OffsetCommitRequestTopic(
        name=topic.name,
        topic_id=ZERO_UUID if known is None else known.topic_id,
        partitions=[OffsetCommitRequestPartition(partition_index=each.partition_index) for each in topic.partitions],
    )


def commit_in_transaction(shard: GroupShard, request: Struct, now: Now, effects: GroupEffects) -> list[Struct]:
    """Write the offsets of a commit that passed the check, and return the topics of the response.

    Errors of single partitions: OFFSET_METADATA_TOO_LARGE.
    """
    records: list[StoredRecord] = []
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            if utf16_length(metadata) <= shard.settings.offset_metadata_max_length:
                code = ErrorCode.NONE
                committed = CommittedOffset(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata,
                    now.wall_ms,
                    topic_id=topic.topic_id,
                )
                records.append(OffsetRecord(request.group_id, topic.name, partition.partition_index, committed))
            partitions.append(
                TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            )
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    if records:
        effects.write(records, producer=Producer(request.producer_id, request.producer_epoch))
    return topics
