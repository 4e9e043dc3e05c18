"""OffsetCommit (key 8): store a group's offsets.

Versions: v0 no membership; v1 generation, member and commit timestamp; v2 retention time, removed in v5 (KIP-211); v3
throttle time; v6 leader epoch (KIP-320); v7 static members (KIP-345); v8 flexible; v9 member epochs of consumer groups
(KIP-848); v10 topic ids (KIP-848).
"""

from protocol.primitives import int16, int32, int64, string, uuid
from protocol.schema import Api, Array, Field, StructType

OffsetCommitRequestPartition = StructType(
    "OffsetCommitRequestPartition",
    Field("partition_index", int32),
    Field("committed_offset", int64),
    Field("committed_leader_epoch", int32, "6+", default=-1, ignorable=True),
    Field("commit_timestamp", int64, "1", default=-1),
    Field("committed_metadata", string, nullable="0+"),
)
OffsetCommitRequestTopic = StructType(
    "OffsetCommitRequestTopic",
    Field("name", string, "0-9", ignorable=True),
    Field("topic_id", uuid, "10+", ignorable=True),
    Field("partitions", Array(OffsetCommitRequestPartition)),
)
OffsetCommitResponsePartition = StructType(
    "OffsetCommitResponsePartition",
    Field("partition_index", int32),
    Field("error_code", int16),
)
OffsetCommitResponseTopic = StructType(
    "OffsetCommitResponseTopic",
    Field("name", string, "0-9", ignorable=True),
    Field("topic_id", uuid, "10+", ignorable=True),
    Field("partitions", Array(OffsetCommitResponsePartition)),
)

OFFSET_COMMIT = Api(
    key=8,
    name="OffsetCommit",
    versions="0-10",
    current="2-10",
    flexible="8+",
    request=[
        Field("group_id", string),
        Field("generation_id_or_member_epoch", int32, "1+", default=-1, ignorable=True),
        Field("member_id", string, "1+", ignorable=True),
        Field("group_instance_id", string, "7+", nullable="7+", default=None),
        Field("retention_time_ms", int64, "2-4", default=-1, ignorable=True),
        Field("topics", Array(OffsetCommitRequestTopic)),
    ],
    response=[
        Field("throttle_time_ms", int32, "3+", ignorable=True),
        Field("topics", Array(OffsetCommitResponseTopic)),
    ],
)
