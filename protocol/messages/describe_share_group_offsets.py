"""DescribeShareGroupOffsets (key 90): start offsets of share groups (KIP-932).

Versions: v1 lag (KIP-1226).
"""

from protocol.primitives import int16, int32, int64, string, uuid
from protocol.schema import Api, Array, Field, StructType

DescribeShareGroupOffsetsRequestTopic = StructType(
    "DescribeShareGroupOffsetsRequestTopic",
    Field("topic_name", string),
    Field("partitions", Array(int32)),
)
DescribeShareGroupOffsetsRequestGroup = StructType(
    "DescribeShareGroupOffsetsRequestGroup",
    Field("group_id", string),
    Field("topics", Array(DescribeShareGroupOffsetsRequestTopic), nullable="0+"),
)
DescribeShareGroupOffsetsResponsePartition = StructType(
    "DescribeShareGroupOffsetsResponsePartition",
    Field("partition_index", int32),
    Field("start_offset", int64),
    Field("leader_epoch", int32),
    Field("lag", int64, "1+", default=-1, ignorable=True),
    Field("error_code", int16),
    Field("error_message", string, nullable="0+", default=None),
)
DescribeShareGroupOffsetsResponseTopic = StructType(
    "DescribeShareGroupOffsetsResponseTopic",
    Field("topic_name", string),
    Field("topic_id", uuid),
    Field("partitions", Array(DescribeShareGroupOffsetsResponsePartition)),
)
DescribeShareGroupOffsetsResponseGroup = StructType(
    "DescribeShareGroupOffsetsResponseGroup",
    Field("group_id", string),
    Field("topics", Array(DescribeShareGroupOffsetsResponseTopic)),
    Field("error_code", int16),
    Field("error_message", string, nullable="0+", default=None),
)

DESCRIBE_SHARE_GROUP_OFFSETS = Api(
    key=90,
    name="DescribeShareGroupOffsets",
    versions="0-1",
    flexible="0+",
    request=[
        Field("groups", Array(DescribeShareGroupOffsetsRequestGroup)),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("groups", Array(DescribeShareGroupOffsetsResponseGroup)),
    ],
)
