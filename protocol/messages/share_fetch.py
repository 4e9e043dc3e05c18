"""ShareFetch (key 78): acquire and acknowledge records of share partitions (KIP-932).

Versions: v0 (early access) was removed; v1 limits by records and batch size, lock timeout; v2 acquire modes (KIP-1206),
renewal of locks (KIP-1222).
"""

from protocol.primitives import boolean, int8, int16, int32, int64, records, string, uuid
from protocol.schema import Api, Array, Field, StructType

AcknowledgementBatch = StructType(
    "AcknowledgementBatch",
    Field("first_offset", int64),
    Field("last_offset", int64),
    Field("acknowledge_types", Array(int8)),
)
FetchPartition = StructType(
    "FetchPartition",
    Field("partition_index", int32),
    Field("partition_max_bytes", int32, "0"),
    Field("acknowledgement_batches", Array(AcknowledgementBatch)),
)
FetchTopic = StructType(
    "FetchTopic",
    Field("topic_id", uuid),
    Field("partitions", Array(FetchPartition)),
)
ForgottenTopic = StructType(
    "ForgottenTopic",
    Field("topic_id", uuid),
    Field("partitions", Array(int32)),
)
LeaderIdAndEpoch = StructType(
    "LeaderIdAndEpoch",
    Field("leader_id", int32),
    Field("leader_epoch", int32),
)
AcquiredRecords = StructType(
    "AcquiredRecords",
    Field("first_offset", int64),
    Field("last_offset", int64),
    Field("delivery_count", int16),
)
PartitionData = StructType(
    "PartitionData",
    Field("partition_index", int32),
    Field("error_code", int16),
    Field("error_message", string, nullable="0+", default=None),
    Field("acknowledge_error_code", int16),
    Field("acknowledge_error_message", string, nullable="0+", default=None),
    Field("current_leader", LeaderIdAndEpoch),
    Field("records", records, nullable="0"),
    Field("acquired_records", Array(AcquiredRecords)),
)
ShareFetchableTopicResponse = StructType(
    "ShareFetchableTopicResponse",
    Field("topic_id", uuid),
    Field("partitions", Array(PartitionData)),
)
NodeEndpoint = StructType(
    "NodeEndpoint",
    Field("node_id", int32),
    Field("host", string),
    Field("port", int32),
    Field("rack", string, nullable="0+", default=None),
)

SHARE_FETCH = Api(
    key=78,
    name="ShareFetch",
    versions="1-2",
    flexible="0+",
    request=[
        Field("group_id", string, nullable="0+", default=None),
        Field("member_id", string, nullable="0+"),
        Field("share_session_epoch", int32),
        Field("max_wait_ms", int32),
        Field("min_bytes", int32),
        Field("max_bytes", int32, default=0x7FFFFFFF),
        Field("max_records", int32, "1+"),
        Field("batch_size", int32, "1+"),
        Field("share_acquire_mode", int8, "2+", ignorable=True),
        Field("is_renew_ack", boolean, "2+"),
        Field("topics", Array(FetchTopic)),
        Field("forgotten_topics_data", Array(ForgottenTopic)),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("error_message", string, nullable="0+", default=None),
        Field("acquisition_lock_timeout_ms", int32, "1+"),
        Field("responses", Array(ShareFetchableTopicResponse)),
        Field("node_endpoints", Array(NodeEndpoint)),
    ],
)
