"""DescribeTransactions (key 65): state of transactional ids (KIP-664)."""

from protocol.primitives import int16, int32, int64, string
from protocol.schema import Api, Array, Field, StructType

TopicData = StructType(
    "TopicData",
    Field("topic", string),
    Field("partitions", Array(int32)),
)
TransactionState = StructType(
    "TransactionState",
    Field("error_code", int16),
    Field("transactional_id", string),
    Field("transaction_state", string),
    Field("transaction_timeout_ms", int32),
    Field("transaction_start_time_ms", int64),
    Field("producer_id", int64),
    Field("producer_epoch", int16),
    Field("topics", Array(TopicData)),
)

DESCRIBE_TRANSACTIONS = Api(
    key=65,
    name="DescribeTransactions",
    versions="0",
    flexible="0+",
    request=[
        Field("transactional_ids", Array(string)),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("transaction_states", Array(TransactionState)),
    ],
)
