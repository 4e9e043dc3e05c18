"""DescribeProducers (key 61): active producers of partitions (KIP-664)."""

from protocol.primitives import int16, int32, int64, string
from protocol.schema import Api, Array, Field, StructType

TopicRequest = StructType(
    "TopicRequest",
    Field("name", string),
    Field("partition_indexes", Array(int32)),
)
ProducerState = StructType(
    "ProducerState",
    Field("producer_id", int64),
    Field("producer_epoch", int32),
    Field("last_sequence", int32, default=-1),
    Field("last_timestamp", int64, default=-1),
    Field("coordinator_epoch", int32),
    Field("current_txn_start_offset", int64, default=-1),
)
PartitionResponse = StructType(
    "PartitionResponse",
    Field("partition_index", int32),
    Field("error_code", int16),
    Field("error_message", string, nullable="0+", default=None),
    Field("active_producers", Array(ProducerState)),
)
TopicResponse = StructType(
    "TopicResponse",
    Field("name", string),
    Field("partitions", Array(PartitionResponse)),
)

DESCRIBE_PRODUCERS = Api(
    key=61,
    name="DescribeProducers",
    versions="0",
    flexible="0+",
    request=[
        Field("topics", Array(TopicRequest)),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("topics", Array(TopicResponse)),
    ],
)
