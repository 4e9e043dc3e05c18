"""SaslHandshake (key 17): choose a SASL mechanism.

Versions: v0 is followed by raw SASL tokens; v1 by SaslAuthenticate requests (KIP-152). A higher version cannot be added
easily, because old clients negotiate it wrongly.
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
