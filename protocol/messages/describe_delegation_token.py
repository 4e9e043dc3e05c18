"""DescribeDelegationToken (key 41): delegation tokens of owners (KIP-48).

Versions: v2 flexible; v3 requester (KIP-373).
"""

from protocol.primitives import bytestring, int16, int32, int64, string
from protocol.schema import Api, Array, Field, StructType

DescribeDelegationTokenOwner = StructType(
    "DescribeDelegationTokenOwner",
    Field("principal_type", string),
    Field("principal_name", string),
)
DescribedDelegationTokenRenewer = StructType(
    "DescribedDelegationTokenRenewer",
    Field("principal_type", string),
    Field("principal_name", string),
)
DescribedDelegationToken = StructType(
    "DescribedDelegationToken",
    Field("principal_type", string),
    Field("principal_name", string),
    Field("token_requester_principal_type", string, "3+"),
    Field("token_requester_principal_name", string, "3+"),
    Field("issue_timestamp", int64),
    Field("expiry_timestamp", int64),
    Field("max_timestamp", int64),
    Field("token_id", string),
    Field("hmac", bytestring),
    Field("renewers", Array(DescribedDelegationTokenRenewer)),
)

DESCRIBE_DELEGATION_TOKEN = Api(
    key=41,
    name="DescribeDelegationToken",
    versions="0-3",
    current="1-3",
    flexible="2+",
    listeners="broker controller",
    request=[
        Field("owners", Array(DescribeDelegationTokenOwner), nullable="0+"),
    ],
    response=[
        Field("error_code", int16),
        Field("tokens", Array(DescribedDelegationToken)),
        Field("throttle_time_ms", int32),
    ],
)
