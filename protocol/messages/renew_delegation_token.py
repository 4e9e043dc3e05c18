"""RenewDelegationToken (key 39): extend the lifetime of a delegation token (KIP-48).

Versions: v2 flexible.
"""

from protocol.primitives import bytestring, int16, int32, int64
from protocol.schema import Api, Field

RENEW_DELEGATION_TOKEN = Api(
    key=39,
    name="RenewDelegationToken",
    versions="0-2",
    current="1-2",
    flexible="2+",
    listeners="broker controller",
    request=[
        Field("hmac", bytestring),
        Field("renew_period_ms", int64),
    ],
    response=[
        Field("error_code", int16),
        Field("expiry_timestamp_ms", int64),
        Field("throttle_time_ms", int32),
    ],
)
