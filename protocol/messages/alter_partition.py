"""AlterPartition (key 56): a leader asks the controller to change the in-sync replicas (KIP-497).

Versions: v1 recovery state (KIP-704); v2 topic ids (KIP-841); v3 broker epochs of replicas (KIP-903).
"""

from protocol.primitives import int8, int16, int32, int64, string, uuid
from protocol.schema import Api, Array, Field, StructType

BrokerState = StructType(
    "BrokerState",
    Field("broker_id", int32, "3+"),
    Field("broker_epoch", int64, "3+", default=-1),
)
RequestPartitionData = StructType(
    "RequestPartitionData",
    Field("partition_index", int32),
    Field("leader_epoch", int32),
    Field("new_isr", Array(int32), "0-2"),
    Field("new_isr_with_epochs", Array(BrokerState), "3+"),
    Field("leader_recovery_state", int8, "1+"),
    Field("partition_epoch", int32),
)
RequestTopicData = StructType(
    "RequestTopicData",
    Field("topic_name", string, "0-1", ignorable=True),
    Field("topic_id", uuid, "2+", ignorable=True),
    Field("partitions", Array(RequestPartitionData)),
)
ResponsePartitionData = StructType(
    "ResponsePartitionData",
    Field("partition_index", int32),
    Field("error_code", int16),
    Field("leader_id", int32),
    Field("leader_epoch", int32),
    Field("isr", Array(int32)),
    Field("leader_recovery_state", int8, "1+", ignorable=True),
    Field("partition_epoch", int32),
)
ResponseTopicData = StructType(
    "ResponseTopicData",
    Field("topic_name", string, "0-1", ignorable=True),
    Field("topic_id", uuid, "2+", ignorable=True),
    Field("partitions", Array(ResponsePartitionData)),
)

ALTER_PARTITION = Api(
    key=56,
    name="AlterPartition",
    versions="0-3",
    current="2-3",
    flexible="0+",
    listeners="controller",
    request=[
        Field("broker_id", int32),
        Field("broker_epoch", int64, default=-1),
        Field("topics", Array(RequestTopicData)),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("topics", Array(ResponseTopicData)),
    ],
)
