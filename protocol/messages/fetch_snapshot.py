"""FetchSnapshot (key 59): a part of a snapshot of the metadata log (KIP-630).

Versions: v1 directory ids, endpoints (KIP-853).
"""

from protocol.primitives import int16, int32, int64, records, string, uint16, uuid
from protocol.schema import Api, Array, Field, StructType

SnapshotId = StructType(
    "SnapshotId",
    Field("end_offset", int64),
    Field("epoch", int32),
)
RequestPartitionSnapshot = StructType(
    "RequestPartitionSnapshot",
    Field("partition", int32),
    Field("current_leader_epoch", int32),
    Field("snapshot_id", SnapshotId),
    Field("position", int64),
    Field("replica_directory_id", uuid, "1+", tag=0, ignorable=True),
)
RequestTopicSnapshot = StructType(
    "RequestTopicSnapshot",
    Field("name", string),
    Field("partitions", Array(RequestPartitionSnapshot)),
)
LeaderIdAndEpoch = StructType(
    "LeaderIdAndEpoch",
    Field("leader_id", int32),
    Field("leader_epoch", int32),
)
ResponsePartitionSnapshot = StructType(
    "ResponsePartitionSnapshot",
    Field("index", int32),
    Field("error_code", int16),
    Field("snapshot_id", SnapshotId),
    Field("current_leader", LeaderIdAndEpoch, tag=0),
    Field("size", int64),
    Field("position", int64),
    Field("unaligned_records", records),
)
ResponseTopicSnapshot = StructType(
    "ResponseTopicSnapshot",
    Field("name", string),
    Field("partitions", Array(ResponsePartitionSnapshot)),
)
NodeEndpoint = StructType(
    "NodeEndpoint",
    Field("node_id", int32, "1+"),
    Field("host", string, "1+"),
    Field("port", uint16, "1+"),
)

FETCH_SNAPSHOT = Api(
    key=59,
    name="FetchSnapshot",
    versions="0-1",
    flexible="0+",
    listeners="controller",
    request=[
        Field("cluster_id", string, nullable="0+", tag=0, default=None),
        Field("replica_id", int32, default=-1),
        Field("max_bytes", int32, default=0x7FFFFFFF),
        Field("topics", Array(RequestTopicSnapshot)),
    ],
    response=[
        Field("throttle_time_ms", int32, ignorable=True),
        Field("error_code", int16),
        Field("topics", Array(ResponseTopicSnapshot)),
        Field("node_endpoints", Array(NodeEndpoint), "1+", tag=0),
    ],
)
