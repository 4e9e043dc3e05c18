"""The principal that a broker puts into an Envelope request."""

from protocol.primitives import boolean, string
from protocol.schema import Field, Message

DefaultPrincipalData = Message(
    "DefaultPrincipalData",
    Field("type", string),
    Field("name", string),
    Field("token_authenticated", boolean),
    versions="0",
    flexible="0+",
)
