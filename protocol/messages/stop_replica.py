"""StopReplica (key 5): the ZooKeeper controller stops or deletes replicas of a broker. Removed in 4.0.

Versions: v1 broker epoch (KIP-380), grouped by topic; v2 flexible; v3 leader epoch per partition (KIP-570); v4 KRaft
controller (KIP-866).
"""

from protocol.primitives import boolean, int16, int32, int64, string
from protocol.schema import Api, Array, Field, StructType

StopReplicaPartitionV0 = StructType(
    "StopReplicaPartitionV0",
    Field("topic_name", string, "0"),
    Field("partition_index", int32, "0"),
)
StopReplicaTopicV1 = StructType(
    "StopReplicaTopicV1",
    Field("name", string, "1-2"),
    Field("partition_indexes", Array(int32), "1-2"),
)
StopReplicaPartitionState = StructType(
    "StopReplicaPartitionState",
    Field("partition_index", int32, "3+"),
    Field("leader_epoch", int32, "3+", default=-1),
    Field("delete_partition", boolean, "3+"),
)
StopReplicaTopicState = StructType(
    "StopReplicaTopicState",
    Field("topic_name", string, "3+"),
    Field("partition_states", Array(StopReplicaPartitionState), "3+"),
)
StopReplicaPartitionError = StructType(
    "StopReplicaPartitionError",
    Field("topic_name", string),
    Field("partition_index", int32),
    Field("error_code", int16),
)

STOP_REPLICA = Api(
    key=5,
    name="StopReplica",
    versions="0-4",
    current="none",
    flexible="2+",
    listeners="zkBroker",
    request=[
        Field("controller_id", int32),
        Field("is_kraft_controller", boolean, "4+"),
        Field("controller_epoch", int32),
        Field("broker_epoch", int64, "1+", default=-1, ignorable=True),
        Field("delete_partitions", boolean, "0-2"),
        Field("ungrouped_partitions", Array(StopReplicaPartitionV0), "0"),
        Field("topics", Array(StopReplicaTopicV1), "1-2"),
        Field("topic_states", Array(StopReplicaTopicState), "3+"),
    ],
    response=[
        Field("error_code", int16),
        Field("partition_errors", Array(StopReplicaPartitionError)),
    ],
)
