"""DeleteAcls (key 31): remove access control entries that match filters (KIP-140).

Versions: v1 pattern types (KIP-290); v2 flexible; v3 user resources (KIP-373).
"""

from protocol.primitives import int8, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

DeleteAclsFilter = StructType(
    "DeleteAclsFilter",
    Field("resource_type_filter", int8),
    Field("resource_name_filter", string, nullable="0+"),
    Field("pattern_type_filter", int8, "1+", default=3),
    Field("principal_filter", string, nullable="0+"),
    Field("host_filter", string, nullable="0+"),
    Field("operation", int8),
    Field("permission_type", int8),
)
DeleteAclsMatchingAcl = StructType(
    "DeleteAclsMatchingAcl",
    Field("error_code", int16),
    Field("error_message", string, nullable="0+"),
    Field("resource_type", int8),
    Field("resource_name", string),
    Field("pattern_type", int8, "1+", default=3),
    Field("principal", string),
    Field("host", string),
    Field("operation", int8),
    Field("permission_type", int8),
)
DeleteAclsFilterResult = StructType(
    "DeleteAclsFilterResult",
    Field("error_code", int16),
    Field("error_message", string, nullable="0+"),
    Field("matching_acls", Array(DeleteAclsMatchingAcl)),
)

DELETE_ACLS = Api(
    key=31,
    name="DeleteAcls",
    versions="0-3",
    current="1-3",
    flexible="2+",
    listeners="broker controller",
    request=[
        Field("filters", Array(DeleteAclsFilter)),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("filter_results", Array(DeleteAclsFilterResult)),
    ],
)
