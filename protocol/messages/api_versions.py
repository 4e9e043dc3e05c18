"""ApiVersions (key 18): get the APIs and versions that the broker supports.

Versions: v1 throttle time; v3 flexible, client software (KIP-511), features (KIP-584); v4 features from version 0 on
(KAFKA-17011); v5 the cluster and node that the client wants (KIP-1242). Responses always have response header v0. The
response to an unknown version is in v0.
"""

from protocol.primitives import boolean, int16, int32, int64, string
from protocol.schema import Api, Array, Field, StructType

ApiVersion = StructType(
    "ApiVersion",
    Field("api_key", int16),
    Field("min_version", int16),
    Field("max_version", int16),
)
SupportedFeatureKey = StructType(
    "SupportedFeatureKey",
    Field("name", string, "3+"),
    Field("min_version", int16, "3+"),
    Field("max_version", int16, "3+"),
)
FinalizedFeatureKey = StructType(
    "FinalizedFeatureKey",
    Field("name", string, "3+"),
    Field("max_version_level", int16, "3+"),
    Field("min_version_level", int16, "3+"),
)

API_VERSIONS = Api(
    key=18,
    name="ApiVersions",
    versions="0-5",
    flexible="3+",
    listeners="broker controller",
    request=[
        Field("client_software_name", string, "3+", ignorable=True),
        Field("client_software_version", string, "3+", ignorable=True),
        Field("cluster_id", string, "5+", nullable="5+", default=None, ignorable=True),
        Field("node_id", int32, "5+", default=-1, ignorable=True),
    ],
    response=[
        Field("error_code", int16),
        Field("api_keys", Array(ApiVersion)),
        Field("throttle_time_ms", int32, "1+", ignorable=True),
        Field("supported_features", Array(SupportedFeatureKey), "3+", tag=0, ignorable=True),
        Field("finalized_features_epoch", int64, "3+", tag=1, default=-1, ignorable=True),
        Field("finalized_features", Array(FinalizedFeatureKey), "3+", tag=2, ignorable=True),
        Field("zk_migration_ready", boolean, "3+", tag=3, ignorable=True),
    ],
)
