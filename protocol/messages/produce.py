"""Produce (key 0): append records to partitions.

Versions: v1 throttle time; v2 append time; v3 transactional id and record batches v2 (KIP-98); v4 KAFKA_STORAGE_ERROR;
v5 log start offset; v7 zstd (KIP-110); v8 errors per record (KIP-467); v9 flexible; v10 new leader in the response
(KIP-951); v11 TRANSACTION_ABORTABLE (KIP-890); v12 a write adds a partition to the transaction (KIP-890); v13 topic ids
(KIP-516). v0-v2 carry message sets v0 and v1.

Most requests are parsed by protocol/fast_path/plain_produce.py, others by the decoder that protocol/compiler.py builds
from this table.

"""

from protocol.primitives import int16, int32, int64, records, string, uuid
from protocol.schema import Api, Array, Field, StructType

PartitionProduceData = StructType(
    "PartitionProduceData",
    Field("index", int32),
    Field("records", records, nullable="0+"),
)
TopicProduceData = StructType(
    "TopicProduceData",
    Field("name", string, "0-12", ignorable=True),
    Field("topic_id", uuid, "13+", ignorable=True),
    Field("partition_data", Array(PartitionProduceData)),
)
BatchIndexAndErrorMessage = StructType(
    "BatchIndexAndErrorMessage",
    Field("batch_index", int32, "8+"),
    Field("batch_index_error_message", string, "8+", nullable="8+", default=None),
)
LeaderIdAndEpoch = StructType(
    "LeaderIdAndEpoch",
    Field("leader_id", int32, "10+", default=-1),
    Field("leader_epoch", int32, "10+", default=-1),
)
PartitionProduceResponse = StructType(
    "PartitionProduceResponse",
    Field("index", int32),
    Field("error_code", int16),
    Field("base_offset", int64),
    Field("log_append_time_ms", int64, "2+", default=-1, ignorable=True),
    Field("log_start_offset", int64, "5+", default=-1, ignorable=True),
    Field("record_errors", Array(BatchIndexAndErrorMessage), "8+", ignorable=True),
    Field("error_message", string, "8+", nullable="8+", default=None, ignorable=True),
    Field("current_leader", LeaderIdAndEpoch, "10+", tag=0),
)
TopicProduceResponse = StructType(
    "TopicProduceResponse",
    Field("name", string, "0-12", ignorable=True),
    Field("topic_id", uuid, "13+", ignorable=True),
    Field("partition_responses", Array(PartitionProduceResponse)),
)
NodeEndpoint = StructType(
    "NodeEndpoint",
    Field("node_id", int32, "10+"),
    Field("host", string, "10+"),
    Field("port", int32, "10+"),
    Field("rack", string, "10+", nullable="10+", default=None),
)

PRODUCE = Api(
    key=0,
    name="Produce",
    versions="0-13",
    current="3-13",
    flexible="9+",
    request=[
        Field("transactional_id", string, "3+", nullable="3+", default=None),
        Field("acks", int16),
        Field("timeout_ms", int32),
        Field("topic_data", Array(TopicProduceData)),
    ],
    response=[
        Field("responses", Array(TopicProduceResponse)),
        Field("throttle_time_ms", int32, "1+", ignorable=True),
        Field("node_endpoints", Array(NodeEndpoint), "10+", tag=0),
    ],
)
