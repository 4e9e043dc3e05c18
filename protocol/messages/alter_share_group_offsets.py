"""AlterShareGroupOffsets (key 91): set start offsets of a share group (KIP-932)."""

from protocol.primitives import int16, int32, int64, string, uuid
from protocol.schema import Api, Array, Field, StructType

AlterShareGroupOffsetsRequestPartition = StructType(
    "AlterShareGroupOffsetsRequestPartition",
    Field("partition_index", int32),
    Field("start_offset", int64),
)
AlterShareGroupOffsetsRequestTopic = StructType(
    "AlterShareGroupOffsetsRequestTopic",
    Field("topic_name", string),
    Field("partitions", Array(AlterShareGroupOffsetsRequestPartition)),
)
AlterShareGroupOffsetsResponsePartition = StructType(
    "AlterShareGroupOffsetsResponsePartition",
    Field("partition_index", int32),
    Field("error_code", int16),
    Field("error_message", string, nullable="0+", default=None),
)
AlterShareGroupOffsetsResponseTopic = StructType(
    "AlterShareGroupOffsetsResponseTopic",
    Field("topic_name", string),
    Field("topic_id", uuid),
    Field("partitions", Array(AlterShareGroupOffsetsResponsePartition)),
)

ALTER_SHARE_GROUP_OFFSETS = Api(
    key=91,
    name="AlterShareGroupOffsets",
    versions="0",
    flexible="0+",
    request=[
        Field("group_id", string),
        Field("topics", Array(AlterShareGroupOffsetsRequestTopic)),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("error_message", string, nullable="0+", default=None),
        Field("responses", Array(AlterShareGroupOffsetsResponseTopic)),
    ],
)
