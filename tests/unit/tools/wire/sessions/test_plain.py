"""Requests and responses as JSON values."""

from __future__ import annotations

import json

import pytest

from protocol.headers import encode_request_header
from protocol.messages.fetch import FETCH
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from protocol.records.builder import BatchBuilder
from tools.wire.sessions.conversation import read_request
from tools.wire.sessions.described import described
from tools.wire.sessions.plain import (
    HIDDEN,
    batches,
    plain,
    text_or_base64,
)
from tools.wire.sessions.recording import Kind, SessionEvent


def test_fields_of_the_version_are_shown() -> None:
    """Ids as text, records decoded, tagged fields unless they have their default."""
    builder = BatchBuilder(3)
    builder.append(1000, b"k", b"\xff", [("h", b"x")])
    request = METADATA.request(topics=[MetadataRequestTopic(topic_id=bytes(16), name="t")])
    assert plain(request, 9)["topics"] == [{"name": "t"}]
    assert plain(request, 12)["topics"] == [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAA", "name": "t"}]
    fetch = FETCH.request(max_wait_ms=1, min_bytes=1)
    assert "cluster_id" not in plain(fetch, 12)
    fetch.cluster_id = "c"
    assert plain(fetch, 12)["cluster_id"] == "c"
    (batch,) = batches(builder.build())
    assert (batch["base_offset"], batch["codec"], batch["crc_valid"]) == (3, "none", True)
    assert batch["records"] == [
        {"offset": 3, "timestamp": 1000, "key": "k", "value": {"base64": "/w=="}, "headers": [["h", "x"]]}
    ]


def test_damaged_batches_are_reported() -> None:
    """Batches before them are shown, and a wrong checksum is marked."""
    builder = BatchBuilder()
    builder.append(1000, b"k", b"v")
    data = builder.build()
    broken = bytearray(data)
    broken[20] ^= 1
    first, second = batches(data + bytes(broken))
    assert (first["crc_valid"], second["crc_valid"]) == (True, False)
    *_, last = batches(data + bytes(8) + b"\0\0\0\1" + bytes(60))
    assert last["position"] == len(data)
    assert "below the minimum" in str(last["damaged"])


@pytest.mark.parametrize(
    ("data", "shown"),
    [(None, None), (b"", ""), ("naïve".encode(), "naïve"), (b"a\n", {"base64": "YQo="}), (b"\xff", {"base64": "/w=="})],
)
def test_bytes_are_text_or_base64(data: bytes | None, shown: object) -> None:
    assert text_or_base64(data) == shown


def test_passwords_are_hidden() -> None:
    """Empty ones are shown as empty."""
    assert plain(SASL_AUTHENTICATE.request(auth_bytes=b"\0me\0secret"), 2) == {"auth_bytes": HIDDEN}
    assert plain(SASL_AUTHENTICATE.request(auth_bytes=b""), 2) == {"auth_bytes": ""}


def test_requests_are_named() -> None:
    """One that cannot be decoded has an error instead."""
    frame = encode_request_header(METADATA, 9, 7, "me") + METADATA.request.encode(9, METADATA.request(topics=[]))
    pending = read_request(frame)
    line = json.loads(described(SessionEvent(Kind.REQUEST, 2, 1.5, frame), pending))
    assert line.pop("body")["topics"] == []
    assert line == {
        "type": "request",
        "connection": 2,
        "at": 1.5,
        "api": "Metadata",
        "version": 9,
        "correlation_id": 7,
        "client_id": "me",
        "bytes": len(frame),
    }
    cut = json.loads(described(SessionEvent(Kind.REQUEST, 2, 1.5, frame[:-2]), pending))
    assert list(cut["body"]) == ["unreadable"]
    assert json.loads(described(SessionEvent(Kind.OPEN, 1, 0, node=3), None))["node"] == 3
    assert json.loads(described(SessionEvent(Kind.CLOSE, 1, 0, by="client"), None))["by"] == "client"
