"""DescribeClientQuotas (key 48): client quotas that match a filter (KIP-546).

Versions: v1 flexible.
"""

from protocol.primitives import boolean, float64, int8, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

ComponentData = StructType(
    "ComponentData",
    Field("entity_type", string),
    Field("match_type", int8),
    Field("match", string, nullable="0+"),
)
EntityData = StructType(
    "EntityData",
    Field("entity_type", string),
    Field("entity_name", string, nullable="0+"),
)
ValueData = StructType(
    "ValueData",
    Field("key", string),
    Field("value", float64),
)
EntryData = StructType(
    "EntryData",
    Field("entity", Array(EntityData)),
    Field("values", Array(ValueData)),
)

DESCRIBE_CLIENT_QUOTAS = Api(
    key=48,
    name="DescribeClientQuotas",
    versions="0-1",
    flexible="1+",
    request=[
        Field("components", Array(ComponentData)),
        Field("strict", boolean),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("error_message", string, nullable="0+"),
        Field("entries", Array(EntryData), nullable="0+"),
    ],
)
