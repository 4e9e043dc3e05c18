"""Requests on a connection, matched with their responses."""

from __future__ import annotations

import pytest

from protocol.error_codes import ProtocolError
from protocol.headers import encode_request_header, encode_response_header
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.metadata import METADATA
from protocol.messages.produce import PRODUCE
from protocol.messages.sasl_handshake import SASL_HANDSHAKE
from protocol.schema import Api
from tools.wire.sessions import conversation
from tools.wire.sessions.conversation import Conversation, Unfollowable, read_request


def request(api: Api, version: int, number: int = 1, **fields: object) -> bytes:
    return encode_request_header(api, version, number, "me") + api.request.encode(version, api.request(**fields))


def answer(api: Api, version: int, number: int = 1, **fields: object) -> bytes:
    return encode_response_header(api, version, number) + api.response.encode(version, api.response(**fields))


def test_responses_match_requests_in_order() -> None:
    """Each is decoded by its request's API and version."""
    talk = Conversation()
    talk.note_request(request(METADATA, 12, 5))
    talk.note_request(request(API_VERSIONS, 3, 6))
    assert talk.waiting == 2
    first = talk.note_answer(answer(METADATA, 12, 5, cluster_id="c"))
    assert (first.name, first.version, first.client_id) == ("Metadata", 12, "me")
    read = first.answer(answer(METADATA, 12, 5, cluster_id="c"))
    assert read is not None
    assert (read[0].cluster_id, read[1]) == ("c", 12)
    assert talk.note_answer(answer(API_VERSIONS, 3, 6)).name == "ApiVersions"
    assert talk.waiting == 0


def test_produce_with_acks_0_has_no_response() -> None:
    """The next response belongs to the next request."""
    talk = Conversation()
    talk.note_request(request(PRODUCE, 9, 1, acks=0, timeout_ms=1))
    assert talk.waiting == 0
    talk.note_request(request(PRODUCE, 9, 2, acks=1, timeout_ms=1))
    assert talk.note_answer(answer(PRODUCE, 9, 2)).correlation_id == 2


def test_unsupported_api_versions_request_gets_version_0() -> None:
    pending = read_request(request(API_VERSIONS, 3, 1))
    read = pending.answer(answer(API_VERSIONS, 0, 1, error_code=35))
    assert read is not None
    assert (read[0].error_code, read[1]) == (35, 0)


def test_unknown_api_is_matched_but_not_decoded() -> None:
    frame = b"\x03\xe8\0\x02\0\0\0\x09rest"
    talk = Conversation()
    pending = talk.note_request(frame)
    assert (pending.name, pending.version, pending.request(frame)) == ("API key 1000", 2, None)
    assert talk.note_answer(b"\0\0\0\x09rest").answer(b"\0\0\0\x09rest") is None


@pytest.mark.parametrize("frame", [b"", b"\0\x03", b"\0\x00\0\x09\0\0\0\x01\xff\xff\0\0"])
def test_malformed_requests_raise_one_error(frame: bytes) -> None:
    with pytest.raises(Unfollowable):
        Conversation().note_request(frame)


def test_unexpected_frames_raise_one_error() -> None:
    """Responses without a request, and SASL tokens without headers."""
    talk = Conversation()
    with pytest.raises(Unfollowable, match="unexpected correlation id"):
        talk.note_answer(b"\0\0\0\x01")
    talk.note_request(request(METADATA, 12, 5))
    with pytest.raises(Unfollowable, match="correlation id 6"):
        talk.note_answer(b"\0\0\0\x06")
    with pytest.raises(Unfollowable, match="malformed answer"):
        talk.note_answer(b"\0")
    with pytest.raises(Unfollowable, match="SaslHandshake v0"):
        talk.note_request(request(SASL_HANDSHAKE, 0, mechanism="PLAIN"))


def test_pending_requests_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that never reads must not fill the memory."""
    monkeypatch.setattr(conversation, "MAX_IN_FLIGHT", 2)
    talk = Conversation()
    for number in range(2):
        talk.note_request(request(METADATA, 12, number))
    with pytest.raises(Unfollowable, match="more than 2"):
        talk.note_request(request(METADATA, 12, 3))


def test_truncated_body_is_still_a_request() -> None:
    """Decoding it raises the protocol's error."""
    frame = request(METADATA, 12, 1, topics=[])[:-2]
    with pytest.raises(ProtocolError):
        Conversation().note_request(frame).request(frame)
