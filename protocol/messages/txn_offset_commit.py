"""TxnOffsetCommit (key 28): store offsets within a transaction (KIP-98).

Versions: v2 leader epoch (KIP-320); v3 flexible, generation and member (KIP-447); v4 TRANSACTION_ABORTABLE; v5 the
group joins the transaction implicitly (KIP-890); v6 topic ids (KIP-1319).
"""

from protocol.primitives import int16, int32, int64, string, uuid
from protocol.schema import Api, Array, Field, StructType

TxnOffsetCommitRequestPartition = StructType(
    "TxnOffsetCommitRequestPartition",
    Field("partition_index", int32),
    Field("committed_offset", int64),
    Field("committed_leader_epoch", int32, "2+", default=-1, ignorable=True),
    Field("committed_metadata", string, nullable="0+"),
)
TxnOffsetCommitRequestTopic = StructType(
    "TxnOffsetCommitRequestTopic",
    Field("name", string, "0-5", ignorable=True),
    Field("topic_id", uuid, "6+", ignorable=True),
    Field("partitions", Array(TxnOffsetCommitRequestPartition)),
)
TxnOffsetCommitResponsePartition = StructType(
    "TxnOffsetCommitResponsePartition",
    Field("partition_index", int32),
    Field("error_code", int16),
)
TxnOffsetCommitResponseTopic = StructType(
    "TxnOffsetCommitResponseTopic",
    Field("name", string, "0-5", ignorable=True),
    Field("topic_id", uuid, "6+", ignorable=True),
    Field("partitions", Array(TxnOffsetCommitResponsePartition)),
)

TXN_OFFSET_COMMIT = Api(
    key=28,
    name="TxnOffsetCommit",
    versions="0-6",
    flexible="3+",
    request=[
        Field("transactional_id", string),
        Field("group_id", string),
        Field("producer_id", int64),
        Field("producer_epoch", int16),
        Field("generation_id_or_member_epoch", int32, "3+", default=-1),
        Field("member_id", string, "3+"),
        Field("group_instance_id", string, "3+", nullable="3+", default=None),
        Field("topics", Array(TxnOffsetCommitRequestTopic)),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("topics", Array(TxnOffsetCommitResponseTopic)),
    ],
)
