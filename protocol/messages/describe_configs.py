"""DescribeConfigs (key 32): configuration of topics, brokers, groups and client metrics (KIP-133).

Versions: v0 only whether a value is a default; v1 sources and synonyms (KIP-226); v3 types and documentation
(KIP-569); v4 flexible.
"""

from protocol.primitives import boolean, int8, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

DescribeConfigsResource = StructType(
    "DescribeConfigsResource",
    Field("resource_type", int8),
    Field("resource_name", string),
    Field("configuration_keys", Array(string), nullable="0+"),
)
DescribeConfigsSynonym = StructType(
    "DescribeConfigsSynonym",
    Field("name", string, "1+"),
    Field("value", string, "1+", nullable="0+"),
    Field("source", int8, "1+"),
)
DescribeConfigsResourceResult = StructType(
    "DescribeConfigsResourceResult",
    Field("name", string),
    Field("value", string, nullable="0+"),
    Field("read_only", boolean),
    Field("is_default", boolean, "0"),
    Field("config_source", int8, "1+", default=-1, ignorable=True),
    Field("is_sensitive", boolean),
    Field("synonyms", Array(DescribeConfigsSynonym), "1+", ignorable=True),
    Field("config_type", int8, "3+", ignorable=True),
    Field("documentation", string, "3+", nullable="0+", ignorable=True),
)
DescribeConfigsResult = StructType(
    "DescribeConfigsResult",
    Field("error_code", int16),
    Field("error_message", string, nullable="0+"),
    Field("resource_type", int8),
    Field("resource_name", string),
    Field("configs", Array(DescribeConfigsResourceResult)),
)

DESCRIBE_CONFIGS = Api(
    key=32,
    name="DescribeConfigs",
    versions="0-4",
    current="1-4",
    flexible="4+",
    listeners="broker controller",
    request=[
        Field("resources", Array(DescribeConfigsResource)),
        Field("include_synonyms", boolean, "1+"),
        Field("include_documentation", boolean, "3+"),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("results", Array(DescribeConfigsResult)),
    ],
)
