"""AddPartitionsToTxn (key 24): partitions join a transaction (KIP-98).

Versions: v2 PRODUCER_FENCED (KIP-588); v3 flexible; v4 many transactions, verify only: between brokers (KIP-890);
v5 TRANSACTION_ABORTABLE (KIP-890).
"""

from protocol.primitives import boolean, int16, int32, int64, string
from protocol.schema import Api, Array, Field, StructType

AddPartitionsToTxnTopic = StructType(
    "AddPartitionsToTxnTopic",
    Field("name", string),
    Field("partitions", Array(int32)),
)
AddPartitionsToTxnTransaction = StructType(
    "AddPartitionsToTxnTransaction",
    Field("transactional_id", string, "4+"),
    Field("producer_id", int64, "4+"),
    Field("producer_epoch", int16, "4+"),
    Field("verify_only", boolean, "4+"),
    Field("topics", Array(AddPartitionsToTxnTopic), "4+"),
)
AddPartitionsToTxnPartitionResult = StructType(
    "AddPartitionsToTxnPartitionResult",
    Field("partition_index", int32),
    Field("partition_error_code", int16),
)
AddPartitionsToTxnTopicResult = StructType(
    "AddPartitionsToTxnTopicResult",
    Field("name", string),
    Field("results_by_partition", Array(AddPartitionsToTxnPartitionResult)),
)
AddPartitionsToTxnResult = StructType(
    "AddPartitionsToTxnResult",
    Field("transactional_id", string, "4+"),
    Field("topic_results", Array(AddPartitionsToTxnTopicResult), "4+"),
)

ADD_PARTITIONS_TO_TXN = Api(
    key=24,
    name="AddPartitionsToTxn",
    versions="0-5",
    flexible="3+",
    request=[
        Field("transactions", Array(AddPartitionsToTxnTransaction), "4+"),
        Field("v3_and_below_transactional_id", string, "0-3"),
        Field("v3_and_below_producer_id", int64, "0-3"),
        Field("v3_and_below_producer_epoch", int16, "0-3"),
        Field("v3_and_below_topics", Array(AddPartitionsToTxnTopic), "0-3"),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16, "4+", ignorable=True),
        Field("results_by_transaction", Array(AddPartitionsToTxnResult), "4+"),
        Field("results_by_topic_v3_and_below", Array(AddPartitionsToTxnTopicResult), "0-3"),
    ],
)
