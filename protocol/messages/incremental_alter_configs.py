"""IncrementalAlterConfigs (key 44): set, delete, append to and subtract from single configurations (KIP-339).

Versions: v1 flexible.
"""

from protocol.primitives import boolean, int8, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

AlterableConfig = StructType(
    "AlterableConfig",
    Field("name", string),
    Field("config_operation", int8),
    Field("value", string, nullable="0+"),
)
AlterConfigsResource = StructType(
    "AlterConfigsResource",
    Field("resource_type", int8),
    Field("resource_name", string),
    Field("configs", Array(AlterableConfig)),
)
AlterConfigsResourceResponse = StructType(
    "AlterConfigsResourceResponse",
    Field("error_code", int16),
    Field("error_message", string, nullable="0+"),
    Field("resource_type", int8),
    Field("resource_name", string),
)

INCREMENTAL_ALTER_CONFIGS = Api(
    key=44,
    name="IncrementalAlterConfigs",
    versions="0-1",
    flexible="1+",
    listeners="broker controller",
    request=[
        Field("resources", Array(AlterConfigsResource)),
        Field("validate_only", boolean),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("responses", Array(AlterConfigsResourceResponse)),
    ],
)
