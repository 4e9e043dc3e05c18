"""CreateDelegationToken (key 38): create a delegation token (KIP-48).

Versions: v2 flexible; v3 owner and requester (KIP-373).
"""

from protocol.primitives import bytestring, int16, int32, int64, string
from protocol.schema import Api, Array, Field, StructType

CreatableRenewers = StructType(
    "CreatableRenewers",
    Field("principal_type", string),
    Field("principal_name", string),
)

CREATE_DELEGATION_TOKEN = Api(
    key=38,
    name="CreateDelegationToken",
    versions="0-3",
    current="1-3",
    flexible="2+",
    listeners="broker controller",
    request=[
        Field("owner_principal_type", string, "3+", nullable="3+"),
        Field("owner_principal_name", string, "3+", nullable="3+"),
        Field("renewers", Array(CreatableRenewers)),
        Field("max_lifetime_ms", int64),
    ],
    response=[
        Field("error_code", int16),
        Field("principal_type", string),
        Field("principal_name", string),
        Field("token_requester_principal_type", string, "3+"),
        Field("token_requester_principal_name", string, "3+"),
        Field("issue_timestamp_ms", int64),
        Field("expiry_timestamp_ms", int64),
        Field("max_timestamp_ms", int64),
        Field("token_id", string),
        Field("hmac", bytestring),
        Field("throttle_time_ms", int32),
    ],
)
