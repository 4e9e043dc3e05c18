"""Transactions in `__transaction_state`: record type 0."""

from protocol.primitives import int8, int16, int32, int64, string
from protocol.schema import Array, Field, Message, StructType

TransactionLogKey = Message("TransactionLogKey", Field("transactional_id", string, "0"), versions="0", key=0)


PartitionsSchema = StructType(
    "PartitionsSchema",
    Field("topic", string),
    Field("partition_ids", Array(int32)),
)
TransactionLogValue = Message(
    "TransactionLogValue",
    Field("producer_id", int64),
    Field("previous_producer_id", int64, "1+", tag=0, default=-1),
    Field("next_producer_id", int64, "1+", tag=1, default=-1),
    Field("producer_epoch", int16),
    Field("next_producer_epoch", int16, "1+", tag=3, default=-1),
    Field("transaction_timeout_ms", int32),
    Field("transaction_status", int8),
    Field("transaction_partitions", Array(PartitionsSchema), nullable="0+"),
    Field("transaction_last_update_timestamp_ms", int64),
    Field("transaction_start_timestamp_ms", int64),
    Field("client_transaction_version", int16, "1+", tag=2),
    versions="0-1",
    flexible="1+",
    key=0,
)
