"""Configurations and client quotas in `__cluster_metadata`."""

from protocol.primitives import boolean, float64, int8, string
from protocol.schema import Array, Field, Message, StructType

ConfigRecord = Message(
    "ConfigRecord",
    Field("resource_type", int8),
    Field("resource_name", string),
    Field("name", string),
    Field("value", string, nullable="0+"),
    versions="0",
    flexible="0+",
    key=4,
)


EntityData = StructType(
    "EntityData",
    Field("entity_type", string),
    Field("entity_name", string, nullable="0+"),
)
ClientQuotaRecord = Message(
    "ClientQuotaRecord",
    Field("entity", Array(EntityData)),
    Field("key", string),
    Field("value", float64),
    Field("remove", boolean),
    versions="0",
    flexible="0+",
    key=14,
)
