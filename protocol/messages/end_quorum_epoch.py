"""EndQuorumEpoch (key 54): a resigning leader informs the voters of the metadata quorum (KIP-595).

Versions: v1 flexible, candidates with directory ids, endpoints (KIP-853).
"""

from protocol.primitives import int16, int32, string, uint16, uuid
from protocol.schema import Api, Array, Field, StructType

ReplicaInfo = StructType(
    "ReplicaInfo",
    Field("candidate_id", int32, "1+"),
    Field("candidate_directory_id", uuid, "1+"),
)
RequestPartitionData = StructType(
    "RequestPartitionData",
    Field("partition_index", int32),
    Field("leader_id", int32),
    Field("leader_epoch", int32),
    Field("preferred_successors", Array(int32), "0", ignorable=True),
    Field("preferred_candidates", Array(ReplicaInfo), "1+", ignorable=True),
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

END_QUORUM_EPOCH = Api(
    key=54,
    name="EndQuorumEpoch",
    versions="0-1",
    flexible="1+",
    listeners="controller",
    request=[
        Field("cluster_id", string, nullable="0+", default=None),
        Field("topics", Array(RequestTopicData)),
        Field("leader_endpoints", Array(LeaderEndpoint), "1+", ignorable=True),
    ],
    response=[
        Field("error_code", int16),
        Field("topics", Array(ResponseTopicData)),
        Field("node_endpoints", Array(NodeEndpoint), "1+", tag=0),
    ],
)
