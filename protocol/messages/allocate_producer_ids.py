"""AllocateProducerIds (key 67): a broker gets a block of producer ids from the controller (KIP-730)."""

from protocol.primitives import int16, int32, int64
from protocol.schema import Api, Field

ALLOCATE_PRODUCER_IDS = Api(
    key=67,
    name="AllocateProducerIds",
    versions="0",
    flexible="0+",
    listeners="controller",
    request=[
        Field("broker_id", int32),
        Field("broker_epoch", int64, default=-1),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("producer_id_start", int64),
        Field("producer_id_len", int32),
    ],
)
