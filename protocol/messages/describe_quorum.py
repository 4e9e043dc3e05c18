"""DescribeQuorum (key 55): state of the metadata quorum (KIP-595).

Versions: v1 times of the last fetch (KIP-836); v2 directory ids, nodes, error messages (KIP-853).
"""

from protocol.primitives import int16, int32, int64, string, uint16, uuid
from protocol.schema import Api, Array, Field, StructType

RequestPartitionData = StructType(
    "RequestPartitionData",
    Field("partition_index", int32),
)
RequestTopicData = StructType(
    "RequestTopicData",
    Field("topic_name", string),
    Field("partitions", Array(RequestPartitionData)),
)
ReplicaState = StructType(
    "ReplicaState",
    Field("replica_id", int32),
    Field("replica_directory_id", uuid, "2+"),
    Field("log_end_offset", int64),
    Field("last_fetch_timestamp", int64, "1+", default=-1, ignorable=True),
    Field("last_caught_up_timestamp", int64, "1+", default=-1, ignorable=True),
)
ResponsePartitionData = StructType(
    "ResponsePartitionData",
    Field("partition_index", int32),
    Field("error_code", int16),
    Field("error_message", string, "2+", nullable="2+", ignorable=True),
    Field("leader_id", int32),
    Field("leader_epoch", int32),
    Field("high_watermark", int64),
    Field("current_voters", Array(ReplicaState)),
    Field("observers", Array(ReplicaState)),
)
ResponseTopicData = StructType(
    "ResponseTopicData",
    Field("topic_name", string),
    Field("partitions", Array(ResponsePartitionData)),
)
Listener = StructType(
    "Listener",
    Field("name", string, "2+"),
    Field("host", string, "2+"),
    Field("port", uint16, "2+"),
)
Node = StructType(
    "Node",
    Field("node_id", int32, "2+"),
    Field("listeners", Array(Listener), "2+"),
)

DESCRIBE_QUORUM = Api(
    key=55,
    name="DescribeQuorum",
    versions="0-2",
    flexible="0+",
    listeners="broker controller",
    request=[
        Field("topics", Array(RequestTopicData)),
    ],
    response=[
        Field("error_code", int16),
        Field("error_message", string, "2+", nullable="2+", ignorable=True),
        Field("topics", Array(ResponseTopicData)),
        Field("nodes", Array(Node), "2+"),
    ],
)
