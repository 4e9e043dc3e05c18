"""UnregisterController (key 94): remove the registration of a controller (KIP-1312)."""

from protocol.primitives import int16, int32, string
from protocol.schema import Api, Field

UNREGISTER_CONTROLLER = Api(
    key=94,
    name="UnregisterController",
    versions="0",
    flexible="0+",
    listeners="broker controller",
    request=[
        Field("controller_id", int32),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("error_message", string, nullable="0+"),
    ],
)
