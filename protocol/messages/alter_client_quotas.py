"""AlterClientQuotas (key 49): set and remove client quotas (KIP-546).

Versions: v1 flexible.
"""

from protocol.primitives import boolean, float64, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

EntityData = StructType(
    "EntityData",
    Field("entity_type", string),
    Field("entity_name", string, nullable="0+"),
)
OpData = StructType(
    "OpData",
    Field("key", string),
    Field("value", float64),
    Field("remove", boolean),
)
RequestEntryData = StructType(
    "RequestEntryData",
    Field("entity", Array(EntityData)),
    Field("ops", Array(OpData)),
)
ResponseEntryData = StructType(
    "ResponseEntryData",
    Field("error_code", int16),
    Field("error_message", string, nullable="0+"),
    Field("entity", Array(EntityData)),
)

ALTER_CLIENT_QUOTAS = Api(
    key=49,
    name="AlterClientQuotas",
    versions="0-1",
    flexible="1+",
    listeners="broker controller",
    request=[
        Field("entries", Array(RequestEntryData)),
        Field("validate_only", boolean),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("entries", Array(ResponseEntryData)),
    ],
)
