"""EndTxn (key 26): commit or abort a transaction (KIP-98).

Versions: v2 PRODUCER_FENCED (KIP-588); v3 flexible; v4 TRANSACTION_ABORTABLE; v5 the epoch increases with each
transaction (KIP-890).
"""

from protocol.primitives import boolean, int16, int32, int64, string
from protocol.schema import Api, Field

END_TXN = Api(
    key=26,
    name="EndTxn",
    versions="0-5",
    flexible="3+",
    request=[
        Field("transactional_id", string),
        Field("producer_id", int64),
        Field("producer_epoch", int16),
        Field("committed", boolean),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("producer_id", int64, "5+", default=-1, ignorable=True),
        Field("producer_epoch", int16, "5+", default=-1, ignorable=True),
    ],
)
