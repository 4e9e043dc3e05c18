"""Headers of requests and responses.

A request header has API key, API version and correlation id; the client id from header version 1 on; tagged fields in
version 2. The client id keeps the old string encoding in version 2 (KIP-482), so a broker can read the first fields of
every request in the same way. A response header has a correlation id, and tagged fields in version 1. The header
version follows from the API and its version.
"""

from __future__ import annotations

import struct

import msgspec

from protocol.error_codes import ProtocolError, UnsupportedVersion
from protocol.primitives import int16, int32, skip_tagged_fields, string
from protocol.registry import API_BY_KEY
from protocol.schema import Api, Field, Message, ReadBuffer

REQUEST_HEADER = Message(
    "RequestHeader",
    Field("request_api_key", int16),
    Field("request_api_version", int16),
    Field("correlation_id", int32),
    Field("client_id", string, "1+", nullable="1+", flexible=False),
    versions="0-2",
    flexible="2+",
)
RESPONSE_HEADER = Message("ResponseHeader", Field("correlation_id", int32), versions="0-1", flexible="1+")

_FIXED = struct.Struct(">hhih")
_CORRELATION_ID = struct.Struct(">i")


# not frozen, because that would double the time to read a header
class RequestHeader(msgspec.Struct):
    """The header of a request; `position` is where the body begins in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    position: int


def decode_request_header(frame: ReadBuffer) -> RequestHeader:
    """Read the header of a request from a frame without its size.

    If the API does not have this version, for example in an ApiVersions request of a newer client, the fields that all
    versions share are read, and `position` is after the header. Raises ProtocolError, and UnsupportedVersion for an
    unknown API key.
    """
    try:
        api_key, api_version, correlation_id, size = _FIXED.unpack_from(frame)
        api = API_BY_KEY.find(api_key)
        if api is None:
            raise UnsupportedVersion(f"unknown API key {api_key}")
        header_version = api.request_header_version(api_version)
        if header_version == 0:
            return RequestHeader(api_key, api_version, correlation_id, None, 8)
        client_id, position = None, 10
        if size >= 0:
            position += size
            if position > len(frame):
                raise ProtocolError("the client id reaches beyond the frame")
            client_id = str(frame[10:position], "utf-8", "replace")
        if header_version == 2:
            tags = frame[position]
            position += 1
            if tags:
                position, _ = skip_tagged_fields(frame, position, tags, len(frame))
    except (struct.error, IndexError):
        raise ProtocolError("the bytes end before the request header does") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def encode_request_header(api: Api, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return the header of a request."""
    header = REQUEST_HEADER(request_api_key=api.key, request_api_version=version, correlation_id=correlation_id)
    header_version = api.request_header_version(version)
    if header_version:
        header.client_id = client_id
    return REQUEST_HEADER.encode(header_version, header)


def encode_response_header(api: Api, version: int, correlation_id: int) -> bytes:
    """Return the header of a response."""
    header = _CORRELATION_ID.pack(correlation_id)
    return header + b"\0" if api.response_header_version(version) else header


def decode_response_header(api: Api, version: int, frame: ReadBuffer) -> tuple[int, int]:
    """Return (correlation id, position of the body). Raises ProtocolError."""
    if len(frame) > _CORRELATION_ID.size and not frame[_CORRELATION_ID.size] and api.response_header_version(version):
        return _CORRELATION_ID.unpack_from(frame)[0], _CORRELATION_ID.size + 1  # no tagged fields, as nearly always
    header, position = RESPONSE_HEADER.decode(api.response_header_version(version), frame)
    return header.correlation_id, position
