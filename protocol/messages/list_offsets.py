"""ListOffsets (key 2): ListOffsets"""

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
