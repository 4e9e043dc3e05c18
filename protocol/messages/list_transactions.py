"""ListTransactions (key 66): list the transactional ids of this coordinator (KIP-664).

Versions: v1 by duration (KIP-994); v2 by pattern (KIP-1152).
"""

from protocol.primitives import int16, int32, int64, string
from protocol.schema import Api, Array, Field, StructType

TransactionState = StructType(
    "TransactionState",
    Field("transactional_id", string),
    Field("producer_id", int64),
    Field("transaction_state", string),
)

LIST_TRANSACTIONS = Api(
    key=66,
    name="ListTransactions",
    versions="0-2",
    flexible="0+",
    request=[
        Field("state_filters", Array(string)),
        Field("producer_id_filters", Array(int64)),
        Field("duration_filter", int64, "1+", default=-1),
        Field("transactional_id_pattern", string, "2+", nullable="2+", default=None),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("unknown_state_filters", Array(string)),
        Field("transaction_states", Array(TransactionState)),
    ],
)
