"""AssignReplicasToDirs (key 73): a broker reports the log directories of its replicas to the controller (KIP-858)."""

from protocol.primitives import int16, int32, int64, uuid
from protocol.schema import Api, Array, Field, StructType

RequestPartitionData = StructType(
    "RequestPartitionData",
    Field("partition_index", int32),
)
RequestTopicData = StructType(
    "RequestTopicData",
    Field("topic_id", uuid),
    Field("partitions", Array(RequestPartitionData)),
)
RequestDirectoryData = StructType(
    "RequestDirectoryData",
    Field("id", uuid),
    Field("topics", Array(RequestTopicData)),
)
ResponsePartitionData = StructType(
    "ResponsePartitionData",
    Field("partition_index", int32),
    Field("error_code", int16),
)
ResponseTopicData = StructType(
    "ResponseTopicData",
    Field("topic_id", uuid),
    Field("partitions", Array(ResponsePartitionData)),
)
ResponseDirectoryData = StructType(
    "ResponseDirectoryData",
    Field("id", uuid),
    Field("topics", Array(ResponseTopicData)),
)

ASSIGN_REPLICAS_TO_DIRS = Api(
    key=73,
    name="AssignReplicasToDirs",
    versions="0",
    flexible="0+",
    listeners="controller",
    request=[
        Field("broker_id", int32),
        Field("broker_epoch", int64, default=-1),
        Field("directories", Array(RequestDirectoryData)),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("directories", Array(ResponseDirectoryData)),
    ],
)
