"""UnregisterBroker (key 64): remove the registration of a broker (KIP-631)."""

from protocol.primitives import int16, int32, string
from protocol.schema import Api, Field

UNREGISTER_BROKER = Api(
    key=64,
    name="UnregisterBroker",
    versions="0",
    flexible="0+",
    listeners="broker controller",
    request=[
        Field("broker_id", int32),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("error_message", string, nullable="0+"),
    ],
)
