"""OffsetDelete (key 47): delete a group's committed offsets (KIP-496)."""

from protocol.primitives import int16, int32, string
from protocol.schema import Api, Array, Field, StructType

OffsetDeleteRequestPartition = StructType(
    "OffsetDeleteRequestPartition",
    Field("partition_index", int32),
)
OffsetDeleteRequestTopic = StructType(
    "OffsetDeleteRequestTopic",
    Field("name", string),
    Field("partitions", Array(OffsetDeleteRequestPartition)),
)
OffsetDeleteResponsePartition = StructType(
    "OffsetDeleteResponsePartition",
    Field("partition_index", int32),
    Field("error_code", int16),
)
OffsetDeleteResponseTopic = StructType(
    "OffsetDeleteResponseTopic",
    Field("name", string),
    Field("partitions", Array(OffsetDeleteResponsePartition)),
)

OFFSET_DELETE = Api(
    key=47,
    name="OffsetDelete",
    versions="0",
    flexible="none",
    request=[
        Field("group_id", string),
        Field("topics", Array(OffsetDeleteRequestTopic)),
    ],
    response=[
        Field("error_code", int16),
        Field("throttle_time_ms", int32, ignorable=True),
        Field("topics", Array(OffsetDeleteResponseTopic)),
    ],
)
