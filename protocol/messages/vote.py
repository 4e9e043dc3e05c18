"""Vote (key 52): a candidate asks the voters of the metadata quorum for their vote (KIP-595).

Versions: v1 voter and directory ids (KIP-853); v2 pre-vote (KIP-996).
"""

from protocol.primitives import boolean, int16, int32, int64, string, uint16, uuid
from protocol.schema import Api, Array, Field, StructType

RequestPartitionData = StructType(
    "RequestPartitionData",
    Field("partition_index", int32),
    Field("replica_epoch", int32),
    Field("replica_id", int32),
    Field("replica_directory_id", uuid, "1+", ignorable=True),
    Field("voter_directory_id", uuid, "1+", ignorable=True),
    Field("last_offset_epoch", int32),
    Field("last_offset", int64),
    Field("pre_vote", boolean, "2+"),
)
RequestTopicData = StructType(
    "RequestTopicData",
    Field("topic_name", string),
    Field("partitions", Array(RequestPartitionData)),
)
ResponsePartitionData = StructType(
    "ResponsePartitionData",
    Field("partition_index", int32),
    Field("error_code", int16),
    Field("leader_id", int32),
    Field("leader_epoch", int32),
    Field("vote_granted", boolean),
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

VOTE = Api(
    key=52,
    name="Vote",
    versions="0-2",
    flexible="0+",
    listeners="controller",
    request=[
        Field("cluster_id", string, nullable="0+", default=None),
        Field("voter_id", int32, "1+", default=-1, ignorable=True),
        Field("topics", Array(RequestTopicData)),
    ],
    response=[
        Field("error_code", int16),
        Field("topics", Array(ResponseTopicData)),
        Field("node_endpoints", Array(NodeEndpoint), "1+", tag=0),
    ],
)
