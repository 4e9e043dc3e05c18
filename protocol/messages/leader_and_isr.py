"""LeaderAndIsr (key 4): the ZooKeeper controller makes a broker lead or follow partitions. Removed in 4.0.

Versions: v1 new replicas; v2 broker epoch (KIP-380), grouped by topic; v3 adding and removing replicas (KIP-455); v4
flexible; v5 topic ids (KIP-516); v6 recovery state (KIP-704); v7 KRaft controller (KIP-866).
"""

from protocol.primitives import boolean, int8, int16, int32, int64, string, uuid
from protocol.schema import Api, Array, Field, StructType

LeaderAndIsrPartitionState = StructType(
    "LeaderAndIsrPartitionState",
    Field("topic_name", string, "0-1", ignorable=True),
    Field("partition_index", int32),
    Field("controller_epoch", int32),
    Field("leader", int32),
    Field("leader_epoch", int32),
    Field("isr", Array(int32)),
    Field("partition_epoch", int32),
    Field("replicas", Array(int32)),
    Field("adding_replicas", Array(int32), "3+", ignorable=True),
    Field("removing_replicas", Array(int32), "3+", ignorable=True),
    Field("is_new", boolean, "1+", ignorable=True),
    Field("leader_recovery_state", int8, "6+"),
)
LeaderAndIsrTopicState = StructType(
    "LeaderAndIsrTopicState",
    Field("topic_name", string, "2+"),
    Field("topic_id", uuid, "5+", ignorable=True),
    Field("partition_states", Array(LeaderAndIsrPartitionState), "2+"),
)
LeaderAndIsrLiveLeader = StructType(
    "LeaderAndIsrLiveLeader",
    Field("broker_id", int32),
    Field("host_name", string),
    Field("port", int32),
)
LeaderAndIsrPartitionError = StructType(
    "LeaderAndIsrPartitionError",
    Field("topic_name", string, "0-4", ignorable=True),
    Field("partition_index", int32),
    Field("error_code", int16),
)
LeaderAndIsrTopicError = StructType(
    "LeaderAndIsrTopicError",
    Field("topic_id", uuid, "5+"),
    Field("partition_errors", Array(LeaderAndIsrPartitionError), "5+"),
)

LEADER_AND_ISR = Api(
    key=4,
    name="LeaderAndIsr",
    versions="0-7",
    current="none",
    flexible="4+",
    listeners="zkBroker",
    request=[
        Field("controller_id", int32),
        Field("is_kraft_controller", boolean, "7+"),
        Field("controller_epoch", int32),
        Field("broker_epoch", int64, "2+", default=-1, ignorable=True),
        Field("type", int8, "5+"),
        Field("ungrouped_partition_states", Array(LeaderAndIsrPartitionState), "0-1"),
        Field("topic_states", Array(LeaderAndIsrTopicState), "2+"),
        Field("live_leaders", Array(LeaderAndIsrLiveLeader)),
    ],
    response=[
        Field("error_code", int16),
        Field("partition_errors", Array(LeaderAndIsrPartitionError), "0-4"),
        Field("topics", Array(LeaderAndIsrTopicError), "5+"),
    ],
)
