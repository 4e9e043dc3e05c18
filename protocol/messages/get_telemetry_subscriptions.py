"""GetTelemetrySubscriptions (key 71): get the metrics that a client should push (KIP-714)."""

from protocol.primitives import boolean, int8, int16, int32, string, uuid
from protocol.schema import Api, Array, Field

GET_TELEMETRY_SUBSCRIPTIONS = Api(
    key=71,
    name="GetTelemetrySubscriptions",
    versions="0",
    flexible="0+",
    request=[
        Field("client_instance_id", uuid),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("client_instance_id", uuid),
        Field("subscription_id", int32),
        Field("accepted_compression_types", Array(int8)),
        Field("push_interval_ms", int32),
        Field("telemetry_max_bytes", int32),
        Field("delta_temporality", boolean),
        Field("requested_metrics", Array(string)),
    ],
)
