"""AlterPartitionReassignments (key 45): start and cancel reassignments (KIP-455).

Versions: v1 may forbid a change of the replication factor (KIP-860).
"""

from protocol.primitives import boolean, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

ReassignablePartition = StructType(
    "ReassignablePartition",
    Field("partition_index", int32),
    Field("replicas", Array(int32), nullable="0+", default=None),
)
ReassignableTopic = StructType(
    "ReassignableTopic",
    Field("name", string),
    Field("partitions", Array(ReassignablePartition)),
)
ReassignablePartitionResponse = StructType(
    "ReassignablePartitionResponse",
    Field("partition_index", int32),
    Field("error_code", int16),
    Field("error_message", string, nullable="0+"),
)
ReassignableTopicResponse = StructType(
    "ReassignableTopicResponse",
    Field("name", string),
    Field("partitions", Array(ReassignablePartitionResponse)),
)

ALTER_PARTITION_REASSIGNMENTS = Api(
    key=45,
    name="AlterPartitionReassignments",
    versions="0-1",
    flexible="0+",
    listeners="broker controller",
    request=[
        Field("timeout_ms", int32, default=60000),
        Field("allow_replication_factor_change", boolean, "1+", default=True),
        Field("topics", Array(ReassignableTopic)),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("allow_replication_factor_change", boolean, "1+", default=True, ignorable=True),
        Field("error_code", int16),
        Field("error_message", string, nullable="0+"),
        Field("responses", Array(ReassignableTopicResponse)),
    ],
)
