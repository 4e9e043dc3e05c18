"""InitProducerId (key 22): get a producer id, or fence the previous owner of a transactional id (KIP-98).

Versions: v2 flexible; v3 resume with a known id and epoch (KIP-360); v4 PRODUCER_FENCED (KIP-588); v5
TRANSACTION_ABORTABLE (KIP-890); v6 two-phase commit (KIP-939), not stable yet.
"""

from protocol.primitives import boolean, int16, int32, int64, string
from protocol.schema import Api, Field

INIT_PRODUCER_ID = Api(
    key=22,
    name="InitProducerId",
    versions="0-6",
    current="0-5",
    flexible="2+",
    request=[
        Field("transactional_id", string, nullable="0+"),
        Field("transaction_timeout_ms", int32),
        Field("producer_id", int64, "3+", default=-1),
        Field("producer_epoch", int16, "3+", default=-1),
        Field("enable2_pc", boolean, "6+"),
        Field("keep_prepared_txn", boolean, "6+"),
    ],
    response=[
        Field("throttle_time_ms", int32, ignorable=True),
        Field("error_code", int16),
        Field("producer_id", int64, default=-1),
        Field("producer_epoch", int16),
        Field("ongoing_txn_producer_id", int64, "6+", default=-1),
        Field("ongoing_txn_producer_epoch", int16, "6+", default=-1),
    ],
)
