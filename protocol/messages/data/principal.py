"""The principal in an Envelope request between a broker and the controller."""

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
