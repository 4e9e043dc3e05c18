"""UpdateMetadata (key 6): the ZooKeeper controller sends the state of the cluster to a broker. Removed in 4.0.

Versions: v1 many endpoints; v2 rack; v3 listener names (KIP-103); v4 offline replicas (KIP-112); v5 broker epoch,
grouped by topic (KIP-380); v6 flexible; v7 topic ids (KIP-516); v8 KRaft controller (KIP-866).
"""

from protocol.primitives import boolean, int8, int16, int32, int64, string, uuid
from protocol.schema import Api, Array, Field, StructType

UpdateMetadataPartitionState = StructType(
    "UpdateMetadataPartitionState",
    Field("topic_name", string, "0-4", ignorable=True),
    Field("partition_index", int32),
    Field("controller_epoch", int32),
    Field("leader", int32),
    Field("leader_epoch", int32),
    Field("isr", Array(int32)),
    Field("zk_version", int32),
    Field("replicas", Array(int32)),
    Field("offline_replicas", Array(int32), "4+", ignorable=True),
)
UpdateMetadataTopicState = StructType(
    "UpdateMetadataTopicState",
    Field("topic_name", string, "5+"),
    Field("topic_id", uuid, "7+", ignorable=True),
    Field("partition_states", Array(UpdateMetadataPartitionState), "5+"),
)
UpdateMetadataEndpoint = StructType(
    "UpdateMetadataEndpoint",
    Field("port", int32, "1+"),
    Field("host", string, "1+"),
    Field("listener", string, "3+", ignorable=True),
    Field("security_protocol", int16, "1+"),
)
UpdateMetadataBroker = StructType(
    "UpdateMetadataBroker",
    Field("id", int32),
    Field("v0_host", string, "0", ignorable=True),
    Field("v0_port", int32, "0", ignorable=True),
    Field("endpoints", Array(UpdateMetadataEndpoint), "1+", ignorable=True),
    Field("rack", string, "2+", nullable="0+", ignorable=True),
)

UPDATE_METADATA = Api(
    key=6,
    name="UpdateMetadata",
    versions="0-8",
    current="none",
    flexible="6+",
    listeners="zkBroker",
    request=[
        Field("controller_id", int32),
        Field("is_kraft_controller", boolean, "8+"),
        Field("type", int8, "8+", tag=0),
        Field("controller_epoch", int32),
        Field("broker_epoch", int64, "5+", default=-1, ignorable=True),
        Field("ungrouped_partition_states", Array(UpdateMetadataPartitionState), "0-4"),
        Field("topic_states", Array(UpdateMetadataTopicState), "5+"),
        Field("live_brokers", Array(UpdateMetadataBroker)),
    ],
    response=[
        Field("error_code", int16),
    ],
)
