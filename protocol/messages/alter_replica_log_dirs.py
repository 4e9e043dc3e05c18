"""AlterReplicaLogDirs (key 34): move replicas between log directories (KIP-113).

Versions: v2 flexible.
"""

from protocol.primitives import int16, int32, string
from protocol.schema import Api, Array, Field, StructType

AlterReplicaLogDirTopic = StructType(
    "AlterReplicaLogDirTopic",
    Field("name", string),
    Field("partitions", Array(int32)),
)
AlterReplicaLogDir = StructType(
    "AlterReplicaLogDir",
    Field("path", string),
    Field("topics", Array(AlterReplicaLogDirTopic)),
)
AlterReplicaLogDirPartitionResult = StructType(
    "AlterReplicaLogDirPartitionResult",
    Field("partition_index", int32),
    Field("error_code", int16),
)
AlterReplicaLogDirTopicResult = StructType(
    "AlterReplicaLogDirTopicResult",
    Field("topic_name", string),
    Field("partitions", Array(AlterReplicaLogDirPartitionResult)),
)

ALTER_REPLICA_LOG_DIRS = Api(
    key=34,
    name="AlterReplicaLogDirs",
    versions="0-2",
    current="1-2",
    flexible="2+",
    request=[
        Field("dirs", Array(AlterReplicaLogDir)),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("results", Array(AlterReplicaLogDirTopicResult)),
    ],
)
