"""AddOffsetsToTxn (key 25): a group's offsets join a transaction (KIP-98).

Versions: v2 PRODUCER_FENCED (KIP-588); v3 flexible; v4 TRANSACTION_ABORTABLE (KIP-890).
"""

from protocol.primitives import int16, int32, int64, string
from protocol.schema import Api, Field

ADD_OFFSETS_TO_TXN = Api(
    key=25,
    name="AddOffsetsToTxn",
    versions="0-4",
    flexible="3+",
    request=[
        Field("transactional_id", string),
        Field("producer_id", int64),
        Field("producer_epoch", int16),
        Field("group_id", string),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
    ],
)
