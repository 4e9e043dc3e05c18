"""SaslHandshake (key 17): choose a SASL mechanism.

Versions: v0 raw SASL tokens follow; v1 SaslAuthenticate requests follow (KIP-152). Cannot be raised easily: old
clients negotiate it wrongly.
"""

from protocol.primitives import int16, string
from protocol.schema import Api, Array, Field

SASL_HANDSHAKE = Api(
    key=17,
    name="SaslHandshake",
    versions="0-1",
    flexible="none",
    listeners="broker controller",
    request=[
        Field("mechanism", string),
    ],
    response=[
        Field("error_code", int16),
        Field("mechanisms", Array(string)),
    ],
)
