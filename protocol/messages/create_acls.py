"""CreateAcls (key 30): add access control entries (KIP-140).

Versions: v1 pattern types (KIP-290); v2 flexible; v3 user resources (KIP-373).
"""

from protocol.primitives import int8, int16, int32, string
from protocol.schema import Api, Array, Field, StructType

AclCreation = StructType(
    "AclCreation",
    Field("resource_type", int8),
    Field("resource_name", string),
    Field("resource_pattern_type", int8, "1+", default=3),
    Field("principal", string),
    Field("host", string),
    Field("operation", int8),
    Field("permission_type", int8),
)
AclCreationResult = StructType(
    "AclCreationResult",
    Field("error_code", int16),
    Field("error_message", string, nullable="0+"),
)

CREATE_ACLS = Api(
    key=30,
    name="CreateAcls",
    versions="0-3",
    current="1-3",
    flexible="2+",
    listeners="broker controller",
    request=[
        Field("creations", Array(AclCreation)),
    ],
    response=[
        Field("throttle_time_ms", int32),
        Field("results", Array(AclCreationResult)),
    ],
)
