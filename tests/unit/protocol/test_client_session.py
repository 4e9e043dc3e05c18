"""Correlation ids of a client's requests, and the versions of a broker."""

from __future__ import annotations

import pytest

from protocol.client_session import ClientSession, SupportedVersions, WrongCorrelationId
from protocol.error_codes import ProtocolError, UnsupportedVersion
from protocol.headers import decode_request_header, encode_response_header
from protocol.messages.api_versions import API_VERSIONS, ApiVersion
from protocol.messages.fetch import FETCH
from protocol.messages.heartbeat import HEARTBEAT


def response(version: int, correlation_id: int, extra: bytes = b"", **fields: object) -> bytes:
    body = HEARTBEAT.response.encode(version, HEARTBEAT.response(**fields))
    return encode_response_header(HEARTBEAT, version, correlation_id) + body + extra


def test_requests_are_numbered_and_matched_in_order() -> None:
    session = ClientSession("me")
    frames = []
    for version in (0, 4):
        request, data = session.encode(HEARTBEAT, version, HEARTBEAT.request(group_id="g"))
        session.expect(request)
        frames.append(data)
    headers = [decode_request_header(data[4:]) for data in frames]
    assert [(each.correlation_id, each.api_version, each.client_id) for each in headers] == [(1, 0, "me"), (2, 4, "me")]
    assert len(session) == 2
    assert session.decode(response(0, 1, error_code=7)).fields.error_code == 7
    found = session.decode(response(4, 2, b"??", error_code=8))
    assert (found.fields.error_code, found.extra_bytes, found.request.name) == (8, 2, "Heartbeat v4")
    assert len(session) == 0


def test_response_of_another_request_is_an_error() -> None:
    session = ClientSession(None)
    session.expect(session.encode(HEARTBEAT, 0, HEARTBEAT.request())[0])
    with pytest.raises(WrongCorrelationId, match="correlation id 2, expected 1"):
        session.match(response(0, 2))


def test_response_without_a_request_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="without a request"):
        ClientSession("me").match(response(0, 1))


def test_ids_start_again_after_the_largest() -> None:
    session = ClientSession("me")
    session._last_id = (1 << 31) - 1
    assert session.encode(HEARTBEAT, 0, HEARTBEAT.request())[0].correlation_id == 0


def test_newest_version_that_both_sides_have() -> None:
    keys = [ApiVersion(api_key=HEARTBEAT.key, min_version=1, max_version=3)]
    versions = SupportedVersions.from_response(API_VERSIONS.response(api_keys=keys))
    assert (versions.newest(HEARTBEAT), versions.newest(HEARTBEAT, 2)) == (3, 2)
    for api, at_most in ((HEARTBEAT, 0), (FETCH, None)):
        with pytest.raises(UnsupportedVersion, match="it serves"):
            versions.newest(api, at_most)


@pytest.mark.parametrize(("code", "text"), [(35, "version"), (9999, "error 9999")])
def test_api_versions_with_an_error(code: int, text: str) -> None:
    with pytest.raises(ProtocolError, match=text):
        SupportedVersions.from_response(API_VERSIONS.response(error_code=code))
