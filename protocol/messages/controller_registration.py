"""ControllerRegistration (key 70): a controller registers with the active controller (KIP-919)."""

from protocol.primitives import boolean, int16, int32, string, uint16, uuid
from protocol.schema import Api, Array, Field, StructType

Listener = StructType(
    "Listener",
    Field("name", string),
    Field("host", string),
    Field("port", uint16),
    Field("security_protocol", int16),
)
Feature = StructType(
    "Feature",
    Field("name", string),
    Field("min_supported_version", int16),
    Field("max_supported_version", int16),
)

CONTROLLER_REGISTRATION = Api(
    key=70,
    name="ControllerRegistration",
    versions="0",
    flexible="0+",
    listeners="controller",
    request=[
        Field("controller_id", int32),
        Field("incarnation_id", uuid),
        Field("zk_migration_ready", boolean),
        Field("listeners", Array(Listener)),
        Field("features", Array(Feature)),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("error_message", string, nullable="0+"),
    ],
)
