"""ListConfigResources (key 74): list resources that have configurations.

Versions: v0 client metrics subscriptions (KIP-714); v1 all types (KIP-1142).
"""

from protocol.primitives import int8, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

ConfigResource = StructType(
    "ConfigResource",
    Field("resource_name", string),
    Field("resource_type", int8, "1+", default=16, ignorable=True),
)

LIST_CONFIG_RESOURCES = Api(
    key=74,
    name="ListConfigResources",
    versions="0-1",
    flexible="0+",
    request=[
        Field("resource_types", Array(int8), "1+"),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("config_resources", Array(ConfigResource)),
    ],
)
