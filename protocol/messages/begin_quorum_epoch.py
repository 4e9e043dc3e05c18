"""BeginQuorumEpoch (key 53): a new leader informs the voters of the metadata quorum (KIP-595).

Versions: v1 flexible, endpoints and voter key (KIP-853).
"""

from protocol.primitives import int16, int32, string, uint16, uuid
from protocol.schema import Api, Array, Field, StructType

RequestPartitionData = StructType(
    "RequestPartitionData",
    Field("partition_index", int32),
    Field("voter_directory_id", uuid, "1+", ignorable=True),
    Field("leader_id", int32),
    Field("leader_epoch", int32),
)
RequestTopicData = StructType(
    "RequestTopicData",
    Field("topic_name", string),
    Field("partitions", Array(RequestPartitionData)),
)
LeaderEndpoint = StructType(
    "LeaderEndpoint",
    Field("name", string, "1+"),
    Field("host", string, "1+"),
    Field("port", uint16, "1+"),
)
ResponsePartitionData = StructType(
    "ResponsePartitionData",
    Field("partition_index", int32),
    Field("error_code", int16),
    Field("leader_id", int32),
    Field("leader_epoch", int32),
)
ResponseTopicData = StructType(
    "ResponseTopicData",
    Field("topic_name", string),
    Field("partitions", Array(ResponsePartitionData)),
)
NodeEndpoint = StructType(
    "NodeEndpoint",
    Field("node_id", int32, "1+"),
    Field("host", string, "1+"),
    Field("port", uint16, "1+"),
)

BEGIN_QUORUM_EPOCH = Api(
    key=53,
    name="BeginQuorumEpoch",
    versions="0-1",
    flexible="1+",
    listeners="controller",
    request=[
        Field("cluster_id", string, nullable="0+", default=None),
        Field("voter_id", int32, "1+", default=-1, ignorable=True),
        Field("topics", Array(RequestTopicData)),
        Field("leader_endpoints", Array(LeaderEndpoint), "1+", ignorable=True),
    ],
    response=[
        Field("error_code", int16),
        Field("topics", Array(ResponseTopicData)),
        Field("node_endpoints", Array(NodeEndpoint), "1+", tag=0),
    ],
)
