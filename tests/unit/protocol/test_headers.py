"""Headers of requests and responses."""

from __future__ import annotations

import pytest

from protocol.error_codes import ProtocolError, UnsupportedVersion
from protocol.headers import (
    REQUEST_HEADER,
    RESPONSE_HEADER,
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.controlled_shutdown import CONTROLLED_SHUTDOWN
from protocol.messages.produce import PRODUCE
from protocol.registry import API_BY_KEY
from tests.support.wire_frames import recorded_files, recorded_frames


def test_request_header_of_a_version_that_is_not_flexible():
    """Version 1: no tagged fields."""
    frame = bytes.fromhex("0000 0003 00000007 0002 6162 ffff")

    assert decode_request_header(frame) == RequestHeader(0, 3, 7, "ab", 12)


def test_request_header_of_a_flexible_version():
    """Version 2: tagged fields are skipped; the client id keeps its old encoding."""
    frame = bytes.fromhex("0000 0009 00000007 0002 6162 01 05 02 ffff aa")

    assert decode_request_header(frame) == RequestHeader(0, 9, 7, "ab", 17)


def test_request_header_without_client_id():
    """null, and version 0, which has no client id."""
    assert decode_request_header(bytes.fromhex("0000 0003 00000007 ffff")) == RequestHeader(0, 3, 7, None, 10)
    frame = encode_request_header(CONTROLLED_SHUTDOWN, 0, 5, None)
    assert len(frame) == 8
    assert decode_request_header(frame + b"\0\0\0\1") == RequestHeader(7, 0, 5, None, 8)


def test_request_header_in_a_newer_version():
    """ApiVersions must be answered, so the header must be readable."""
    frame = bytes.fromhex("0012 0063 00000007 0001 61 00")

    assert decode_request_header(frame) == RequestHeader(18, 99, 7, "a", 12)


def test_request_header_of_an_unknown_api_key():
    """The header of such a request is unknown too."""
    with pytest.raises(UnsupportedVersion, match="unknown API key 9999"):
        decode_request_header(bytes.fromhex("270f 0000 00000007 ffff"))


@pytest.mark.parametrize("frame", ["0000 0009 00000007 0002 6162 01 05 02 ffff", "0000 0003 00000007 0002 6162"])
def test_truncated_request_header_is_a_protocol_error(frame: str):
    """Truncated after every byte (rule 1)."""
    data = bytes.fromhex(frame)
    for cut in range(len(data)):
        with pytest.raises(ProtocolError, match=r"the bytes end|beyond|truncated"):
            decode_request_header(memoryview(data)[:cut])


def test_request_header_with_invalid_utf8_is_read_as_in_java():
    """Invalid bytes become replacement characters."""
    assert decode_request_header(bytes.fromhex("0000 0003 00000007 0002 c328")).client_id == "\ufffd("


def test_quick_request_header_equals_the_schema():
    """The hand-written reader and the schema's codec agree on all recorded requests."""
    for file_name in recorded_files():
        for frame in recorded_frames(file_name):
            if frame.message is not frame.api.request:
                continue
            header = decode_request_header(frame.data)
            value, end = REQUEST_HEADER.decode(frame.api.request_header_version(frame.version), frame.data)
            assert (header.api_key, header.api_version, header.correlation_id, header.client_id, header.position) == (
                value.request_api_key,
                value.request_api_version,
                value.correlation_id,
                value.client_id,
                end,
            )
            encoded = encode_request_header(frame.api, frame.version, header.correlation_id, header.client_id)
            assert encoded == frame.data[:end]


def test_response_headers_equal_the_schema():
    """For every API and version."""
    for api in API_BY_KEY.values():
        for version in api.versions:
            header = encode_response_header(api, version, 1234)
            schema_version = api.response_header_version(version)
            assert header == RESPONSE_HEADER.encode(schema_version, RESPONSE_HEADER(correlation_id=1234))
            assert decode_response_header(api, version, header + b"body") == (1234, len(header))


def test_response_header_of_api_versions_has_no_tags():
    """The client does not know yet which version the broker understood (KIP-511)."""
    assert encode_response_header(API_VERSIONS, 3, 1) == b"\0\0\0\1"
    assert encode_response_header(PRODUCE, 9, 1) == b"\0\0\0\1\0"
