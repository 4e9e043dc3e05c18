"""ElectLeaders (key 43): elect preferred or unclean leaders (KIP-183).

Versions: v1 kinds of election (KIP-460); v2 flexible.
"""

from protocol.primitives import int8, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

TopicPartitions = StructType(
    "TopicPartitions",
    Field("topic", string),
    Field("partitions", Array(int32)),
)
PartitionResult = StructType(
    "PartitionResult",
    Field("partition_id", int32),
    Field("error_code", int16),
    Field("error_message", string, nullable="0+"),
)
ReplicaElectionResult = StructType(
    "ReplicaElectionResult",
    Field("topic", string),
    Field("partition_result", Array(PartitionResult)),
)

ELECT_LEADERS = Api(
    key=43,
    name="ElectLeaders",
    versions="0-2",
    flexible="2+",
    listeners="broker controller",
    request=[
        Field("election_type", int8, "1+"),
        Field("topic_partitions", Array(TopicPartitions), nullable="0+"),
        Field("timeout_ms", int32, default=60000),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16, "1+"),
        Field("replica_election_results", Array(ReplicaElectionResult)),
    ],
)
