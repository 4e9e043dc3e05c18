"""SaslAuthenticate (key 36): one step of a SASL exchange (KIP-152).

Versions: v1 session lifetime (KIP-368); v2 flexible.
"""

from protocol.primitives import bytestring, int16, int64, string
from protocol.schema import Api, Field

SASL_AUTHENTICATE = Api(
    key=36,
    name="SaslAuthenticate",
    versions="0-2",
    flexible="2+",
    listeners="broker controller",
    request=[
        Field("auth_bytes", bytestring),
    ],
    response=[
        Field("error_code", int16),
        Field("error_message", string, nullable="0+"),
        Field("auth_bytes", bytestring),
        Field("session_lifetime_ms", int64, "1+", ignorable=True),
    ],
)
