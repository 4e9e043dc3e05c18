"""ShareAcknowledge (key 79): acknowledge records of share partitions (KIP-932).

Versions: v0 (early access) was removed; v2 renewal of locks (KIP-1222).
"""

from protocol.primitives import boolean, int8, int16, int32, int64, string, uuid
from protocol.schema import Api, Array, Field, StructType

AcknowledgementBatch = StructType(
    "AcknowledgementBatch",
    Field("first_offset", int64),
    Field("last_offset", int64),
    Field("acknowledge_types", Array(int8)),
)
AcknowledgePartition = StructType(
    "AcknowledgePartition",
    Field("partition_index", int32),
    Field("acknowledgement_batches", Array(AcknowledgementBatch)),
)
AcknowledgeTopic = StructType(
    "AcknowledgeTopic",
    Field("topic_id", uuid),
    Field("partitions", Array(AcknowledgePartition)),
)
LeaderIdAndEpoch = StructType(
    "LeaderIdAndEpoch",
    Field("leader_id", int32),
    Field("leader_epoch", int32),
)
PartitionData = StructType(
    "PartitionData",
    Field("partition_index", int32),
    Field("error_code", int16),
    Field("error_message", string, nullable="0+", default=None),
    Field("current_leader", LeaderIdAndEpoch),
)
ShareAcknowledgeTopicResponse = StructType(
    "ShareAcknowledgeTopicResponse",
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

SHARE_ACKNOWLEDGE = Api(
    key=79,
    name="ShareAcknowledge",
    versions="1-2",
    flexible="0+",
    request=[
        Field("group_id", string, nullable="0+", default=None),
        Field("member_id", string, nullable="0+"),
        Field("share_session_epoch", int32),
        Field("is_renew_ack", boolean, "2+"),
        Field("topics", Array(AcknowledgeTopic)),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("error_message", string, nullable="0+", default=None),
        Field("acquisition_lock_timeout_ms", int32, "2+", ignorable=True),
        Field("responses", Array(ShareAcknowledgeTopicResponse)),
        Field("node_endpoints", Array(NodeEndpoint)),
    ],
)
