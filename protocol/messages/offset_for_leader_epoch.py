"""OffsetForLeaderEpoch (key 23): find the end offset of a leader epoch (KIP-101).

Versions: v1 leader epoch in responses; v2 current leader epoch (KIP-320); v3 replica id; v4 flexible.
"""

from protocol.primitives import int16, int32, int64, string
from protocol.schema import Api, Array, Field, StructType

OffsetForLeaderPartition = StructType(
    "OffsetForLeaderPartition",
    Field("partition", int32),
    Field("current_leader_epoch", int32, "2+", default=-1, ignorable=True),
    Field("leader_epoch", int32),
)
OffsetForLeaderTopic = StructType(
    "OffsetForLeaderTopic",
    Field("topic", string),
    Field("partitions", Array(OffsetForLeaderPartition)),
)
EpochEndOffset = StructType(
    "EpochEndOffset",
    Field("error_code", int16),
    Field("partition", int32),
    Field("leader_epoch", int32, "1+", default=-1, ignorable=True),
    Field("end_offset", int64, default=-1),
)
OffsetForLeaderTopicResult = StructType(
    "OffsetForLeaderTopicResult",
    Field("topic", string),
    Field("partitions", Array(EpochEndOffset)),
)

OFFSET_FOR_LEADER_EPOCH = Api(
    key=23,
    name="OffsetForLeaderEpoch",
    versions="0-4",
    current="2-4",
    flexible="4+",
    request=[
        Field("replica_id", int32, "3+", default=-2, ignorable=True),
        Field("topics", Array(OffsetForLeaderTopic)),
    ],
    response=[
        Field("throttle_time_ms", int32, "2+", ignorable=True),
        Field("topics", Array(OffsetForLeaderTopicResult)),
    ],
)
