"""PushTelemetry (key 72): push metrics of a client (KIP-714)."""

from protocol.primitives import boolean, bytestring, int8, int16, int32, uuid
from protocol.schema import Api, Field

PUSH_TELEMETRY = Api(
    key=72,
    name="PushTelemetry",
    versions="0",
    flexible="0+",
    request=[
        Field("client_instance_id", uuid),
        Field("subscription_id", int32),
        Field("terminating", boolean),
        Field("compression_type", int8),
        Field("metrics", bytestring),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
    ],
)
