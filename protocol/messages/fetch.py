"""Fetch (key 1): read records from partitions.

Versions: v1 throttle time; v2 messages v1; v3 max bytes of the whole response (KIP-74); v4 isolation level, record
batches v2 (KIP-98); v5 log start offset (KIP-107); v7 fetch sessions (KIP-227); v9 current leader epoch (KIP-320); v10
zstd (KIP-110); v11 rack and preferred read replica (KIP-392); v12 flexible, diverging epoch (KIP-595); v13 topic ids
(KIP-516); v14 OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405); v15 replica state (KIP-903); v16 new leader in the response
(KIP-951); v17 directory id (KIP-853); v18 the follower's high watermark (KIP-1166).
"""

from protocol.primitives import int8, int16, int32, int64, records, string, uuid
from protocol.schema import Api, Array, Field, StructType

ReplicaState = StructType(
    "ReplicaState",
    Field("replica_id", int32, "15+", default=-1),
    Field("replica_epoch", int64, "15+", default=-1),
)
FetchPartition = StructType(
    "FetchPartition",
    Field("partition", int32),
    Field("current_leader_epoch", int32, "9+", default=-1, ignorable=True),
    Field("fetch_offset", int64),
    Field("last_fetched_epoch", int32, "12+", default=-1),
    Field("log_start_offset", int64, "5+", default=-1, ignorable=True),
    Field("partition_max_bytes", int32),
    Field("replica_directory_id", uuid, "17+", tag=0, ignorable=True),
    Field("high_watermark", int64, "18+", tag=1, default=2**63 - 1, ignorable=True),
)
FetchTopic = StructType(
    "FetchTopic",
    Field("topic", string, "0-12", ignorable=True),
    Field("topic_id", uuid, "13+", ignorable=True),
    Field("partitions", Array(FetchPartition)),
)
ForgottenTopic = StructType(
    "ForgottenTopic",
    Field("topic", string, "7-12", ignorable=True),
    Field("topic_id", uuid, "13+", ignorable=True),
    Field("partitions", Array(int32), "7+"),
)
EpochEndOffset = StructType(
    "EpochEndOffset",
    Field("epoch", int32, "12+", default=-1),
    Field("end_offset", int64, "12+", default=-1),
)
LeaderIdAndEpoch = StructType(
    "LeaderIdAndEpoch",
    Field("leader_id", int32, "12+", default=-1),
    Field("leader_epoch", int32, "12+", default=-1),
)
SnapshotId = StructType(
    "SnapshotId",
    Field("end_offset", int64, default=-1),
    Field("epoch", int32, default=-1),
)
AbortedTransaction = StructType(
    "AbortedTransaction",
    Field("producer_id", int64, "4+"),
    Field("first_offset", int64, "4+"),
)
PartitionData = StructType(
    "PartitionData",
    Field("partition_index", int32),
    Field("error_code", int16),
    Field("high_watermark", int64),
    Field("last_stable_offset", int64, "4+", default=-1, ignorable=True),
    Field("log_start_offset", int64, "5+", default=-1, ignorable=True),
    Field("diverging_epoch", EpochEndOffset, "12+", tag=0),
    Field("current_leader", LeaderIdAndEpoch, "12+", tag=1),
    Field("snapshot_id", SnapshotId, "12+", tag=2),
    Field("aborted_transactions", Array(AbortedTransaction), "4+", nullable="4+", ignorable=True),
    Field("preferred_read_replica", int32, "11+", default=-1),
    Field("records", records, nullable="0+"),
)
FetchableTopicResponse = StructType(
    "FetchableTopicResponse",
    Field("topic", string, "0-12", ignorable=True),
    Field("topic_id", uuid, "13+", ignorable=True),
    Field("partitions", Array(PartitionData)),
)
NodeEndpoint = StructType(
    "NodeEndpoint",
    Field("node_id", int32, "16+"),
    Field("host", string, "16+"),
    Field("port", int32, "16+"),
    Field("rack", string, "16+", nullable="16+", default=None),
)

FETCH = Api(
    key=1,
    name="Fetch",
    versions="0-18",
    current="4-18",
    flexible="12+",
    listeners="broker controller",
    request=[
        Field("cluster_id", string, "12+", nullable="12+", tag=0, default=None, ignorable=True),
        Field("replica_id", int32, "0-14", default=-1),
        Field("replica_state", ReplicaState, "15+", tag=1),
        Field("max_wait_ms", int32),
        Field("min_bytes", int32),
        Field("max_bytes", int32, "3+", default=0x7FFFFFFF, ignorable=True),
        Field("isolation_level", int8, "4+", ignorable=True),
        Field("session_id", int32, "7+", ignorable=True),
        Field("session_epoch", int32, "7+", default=-1, ignorable=True),
        Field("topics", Array(FetchTopic)),
        Field("forgotten_topics_data", Array(ForgottenTopic), "7+"),
        Field("rack_id", string, "11+", ignorable=True),
    ],
    response=[
        Field("throttle_time_ms", int32, "1+", ignorable=True),
        Field("error_code", int16, "7+", ignorable=True),
        Field("session_id", int32, "7+"),
        Field("responses", Array(FetchableTopicResponse)),
        Field("node_endpoints", Array(NodeEndpoint), "16+", tag=0),
    ],
)
