"""CreatePartitions (key 37): add partitions to topics (KIP-195).

Versions: v2 flexible; v3 quota errors (KIP-599).
"""

from protocol.primitives import boolean, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

CreatePartitionsAssignment = StructType(
    "CreatePartitionsAssignment",
    Field("broker_ids", Array(int32)),
)
CreatePartitionsTopic = StructType(
    "CreatePartitionsTopic",
    Field("name", string),
    Field("count", int32),
    Field("assignments", Array(CreatePartitionsAssignment), nullable="0+"),
)
CreatePartitionsTopicResult = StructType(
    "CreatePartitionsTopicResult",
    Field("name", string),
    Field("error_code", int16),
    Field("error_message", string, nullable="0+", default=None),
)

CREATE_PARTITIONS = Api(
    key=37,
    name="CreatePartitions",
    versions="0-3",
    flexible="2+",
    listeners="broker controller",
    request=[
        Field("topics", Array(CreatePartitionsTopic)),
        Field("timeout_ms", int32),
        Field("validate_only", boolean),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("results", Array(CreatePartitionsTopicResult)),
    ],
)
