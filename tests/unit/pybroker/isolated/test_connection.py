"""A connection on a real socket: which version it speaks, and what breaks it."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from protocol.framing import frame
from protocol.headers import encode_response_header
from protocol.messages.fetch import FETCH
from protocol.messages.metadata import METADATA
from pybroker.isolated.connection import Connection, ConnectionFailed
from pybroker.source.errors import BrokerFailed
from tests.support.scripted_broker import Answer, answer, raw, scripted_broker, serves

VERSIONS = serves((METADATA, 4, 7))
METADATA_ANSWER = answer(METADATA, cluster_id="here")


def test_newest_common_version_is_used() -> None:
    with (
        scripted_broker((VERSIONS, METADATA_ANSWER)) as port,
        closing(Connection("127.0.0.1", port, timeout_s=10)) as connection,
    ):
        assert connection.version(METADATA, 5) == 5
        answer, version = connection.call(METADATA, 9, topics=[])

    assert (answer.cluster_id, version) == ("here", 7)


@pytest.mark.parametrize(("api", "most"), [(METADATA, 3), (FETCH, 12)])
def test_unsupported_api_is_named(api: object, most: int) -> None:
    with scripted_broker((VERSIONS,)) as port, closing(Connection("127.0.0.1", port, timeout_s=10)) as connection:
        with pytest.raises(BrokerFailed, match=r"serves (Metadata|Fetch) in versions"):
            connection.version(api, most)  # type: ignore[arg-type]
        assert not connection.is_broken


@pytest.mark.parametrize(
    "bad",
    [
        raw(b""),
        lambda header: METADATA_ANSWER(header)[:-3],
        raw(frame(encode_response_header(METADATA, 7, 99))),
        lambda header: frame(encode_response_header(METADATA, 7, header.correlation_id), b"\0\0"),
        raw(b"\xff\xff\xff\xff"),
    ],
    ids=["none", "cut off", "another one", "too short", "negative size"],
)
def test_invalid_response_breaks_the_connection(bad: Answer) -> None:
    with scripted_broker((VERSIONS, bad)) as port, closing(Connection("127.0.0.1", port, timeout_s=10)) as connection:
        with pytest.raises(ConnectionFailed, match=f"127.0.0.1:{port}: "):
            connection.call(METADATA, 9, topics=[])
        assert connection.is_broken


def test_refused_connection_and_timeout_are_errors() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConnectionFailed, match="timed out"):
            Connection("127.0.0.1", port, timeout_s=0.05)

    with pytest.raises(ConnectionFailed, match="refused"):
        Connection("127.0.0.1", port, timeout_s=10)
