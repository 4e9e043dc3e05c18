"""ListOffsets (key 2): find offsets by timestamp, and the first and last offsets.

Versions: v0 lists segment starts; v1 one offset with its timestamp (KIP-79); v2 isolation level, throttle time
(KIP-98); v4 leader epoch (KIP-320); v5 OFFSET_NOT_AVAILABLE (KIP-207); v6 flexible; v7 offset of the max timestamp (-3,
KIP-734); v8 local log start (-4, KIP-405); v9 last tiered offset (-5, KIP-1005); v10 timeout for remote reads
(KIP-1075); v11 earliest offset pending upload (-6, KIP-1023).
"""

from protocol.primitives import int8, int16, int32, int64, string
from protocol.schema import Api, Array, Field, StructType

ListOffsetsPartition = StructType(
    "ListOffsetsPartition",
    Field("partition_index", int32),
    Field("current_leader_epoch", int32, "4+", default=-1, ignorable=True),
    Field("timestamp", int64),
    Field("max_num_offsets", int32, "0", default=1),
)
ListOffsetsTopic = StructType(
    "ListOffsetsTopic",
    Field("name", string),
    Field("partitions", Array(ListOffsetsPartition)),
)
ListOffsetsPartitionResponse = StructType(
    "ListOffsetsPartitionResponse",
    Field("partition_index", int32),
    Field("error_code", int16),
    Field("old_style_offsets", Array(int64), "0"),
    Field("timestamp", int64, "1+", default=-1),
    Field("offset", int64, "1+", default=-1),
    Field("leader_epoch", int32, "4+", default=-1),
)
ListOffsetsTopicResponse = StructType(
    "ListOffsetsTopicResponse",
    Field("name", string),
    Field("partitions", Array(ListOffsetsPartitionResponse)),
)

LIST_OFFSETS = Api(
    key=2,
    name="ListOffsets",
    versions="0-11",
    current="1-11",
    flexible="6+",
    request=[
        Field("replica_id", int32),
        Field("isolation_level", int8, "2+"),
        Field("topics", Array(ListOffsetsTopic)),
        Field("timeout_ms", int32, "10+", ignorable=True),
    ],
    response=[
        Field("throttle_time_ms", int32, "2+", ignorable=True),
        Field("topics", Array(ListOffsetsTopicResponse)),
    ],
)
