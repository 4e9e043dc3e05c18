"""Envelope (key 58): a broker forwards a client's request to the controller (KIP-590)."""

from protocol.primitives import bytestring, int16
from protocol.schema import Api, Field

ENVELOPE = Api(
    key=58,
    name="Envelope",
    versions="0",
    flexible="0+",
    listeners="controller",
    request=[
        Field("request_data", bytestring),
        Field("request_principal", bytestring, nullable="0+"),
        Field("client_host_address", bytestring),
    ],
    response=[
        Field("response_data", bytestring, nullable="0+", default=None),
        Field("error_code", int16),
    ],
)
