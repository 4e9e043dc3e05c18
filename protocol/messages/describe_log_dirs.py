"""DescribeLogDirs (key 35): log directories and the sizes of what is in them (KIP-113).

Versions: v2 flexible; v3 top-level error (KIP-784); v4 size of the volume (KIP-827); v5 cordoned directories
(KIP-1066).
"""

from protocol.primitives import boolean, int16, int32, int64, string
from protocol.schema import Api, Array, Field, StructType

DescribableLogDirTopic = StructType(
    "DescribableLogDirTopic",
    Field("topic", string),
    Field("partitions", Array(int32)),
)
DescribeLogDirsPartition = StructType(
    "DescribeLogDirsPartition",
    Field("partition_index", int32),
    Field("partition_size", int64),
    Field("offset_lag", int64),
    Field("is_future_key", boolean),
)
DescribeLogDirsTopic = StructType(
    "DescribeLogDirsTopic",
    Field("name", string),
    Field("partitions", Array(DescribeLogDirsPartition)),
)
DescribeLogDirsResult = StructType(
    "DescribeLogDirsResult",
    Field("error_code", int16),
    Field("log_dir", string),
    Field("topics", Array(DescribeLogDirsTopic)),
    Field("total_bytes", int64, "4+", default=-1, ignorable=True),
    Field("usable_bytes", int64, "4+", default=-1, ignorable=True),
    Field("is_cordoned", boolean, "5+", ignorable=True),
)

DESCRIBE_LOG_DIRS = Api(
    key=35,
    name="DescribeLogDirs",
    versions="0-5",
    current="1-5",
    flexible="2+",
    request=[
        Field("topics", Array(DescribableLogDirTopic), nullable="0+"),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16, "3+", ignorable=True),
        Field("results", Array(DescribeLogDirsResult)),
    ],
)
