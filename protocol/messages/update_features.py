"""UpdateFeatures (key 57): raise and lower finalized feature levels (KIP-584).

Versions: v1 kinds of upgrade, validate only (KIP-778); v2 no results per feature (KIP-1022).
"""

from protocol.primitives import boolean, int8, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

FeatureUpdateKey = StructType(
    "FeatureUpdateKey",
    Field("feature", string),
    Field("max_version_level", int16),
    Field("allow_downgrade", boolean, "0"),
    Field("upgrade_type", int8, "1+", default=1),
)
UpdatableFeatureResult = StructType(
    "UpdatableFeatureResult",
    Field("feature", string),
    Field("error_code", int16),
    Field("error_message", string, nullable="0+"),
)

UPDATE_FEATURES = Api(
    key=57,
    name="UpdateFeatures",
    versions="0-2",
    flexible="0+",
    listeners="broker controller",
    request=[
        Field("timeout_ms", int32, default=60000),
        Field("feature_updates", Array(FeatureUpdateKey)),
        Field("validate_only", boolean, "1+"),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("error_code", int16),
        Field("error_message", string, nullable="0+"),
        Field("results", Array(UpdatableFeatureResult), "0-1", ignorable=True),
    ],
)
