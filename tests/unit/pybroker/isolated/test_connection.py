"""A connection on a real socket: which version it speaks, and what breaks it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from protocol.framing import frame
from protocol.headers import decode_request_header, encode_response_header
from protocol.messages.api_versions import API_VERSIONS, ApiVersion
from protocol.messages.fetch import FETCH
from protocol.messages.metadata import METADATA
from pybroker.isolated.connection import Connection, ConnectionFailed
from pybroker.source.errors import BrokerFailed

Answer = Callable[[int], bytes]
"""From a request's correlation id to the bytes that come back; none of them: the connection is closed."""


def versions(correlation_id: int) -> bytes:
    """Of a broker that has Metadata in versions 4 to 7, and no Fetch."""
    served = [ApiVersion(api_key=METADATA.key, min_version=4, max_version=7)]
    body = API_VERSIONS.response.encode(0, API_VERSIONS.response(api_keys=served))
    return frame(encode_response_header(API_VERSIONS, 0, correlation_id), body)


def metadata(correlation_id: int) -> bytes:
    body = METADATA.response.encode(7, METADATA.response(cluster_id="here"))
    return frame(encode_response_header(METADATA, 7, correlation_id), body)


@contextmanager
def served(*answers: Answer) -> Iterator[int]:
    """The port of a server that gives one connection these answers, then hangs up."""

    def serve() -> None:
        with closing(listener.accept()[0]) as connection:
            for answer in answers:
                size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
                request = connection.recv(size, socket.MSG_WAITALL)
                if not request:
                    return
                connection.sendall(answer(decode_request_header(request).correlation_id))

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_newest_version_of_both_is_spoken() -> None:
    with served(versions, metadata) as port, closing(Connection("127.0.0.1", port, timeout_s=10)) as connection:
        assert connection.version(METADATA, 5) == 5
        answer, version = connection.call(METADATA, 9, topics=[])

    assert (answer.cluster_id, version) == ("here", 7)


@pytest.mark.parametrize(("api", "most"), [(METADATA, 3), (FETCH, 12)])
def test_api_that_the_broker_does_not_serve_is_named(api: object, most: int) -> None:
    with served(versions) as port, closing(Connection("127.0.0.1", port, timeout_s=10)) as connection:
        with pytest.raises(BrokerFailed, match=r"serves (Metadata|Fetch) in versions"):
            connection.version(api, most)  # type: ignore[arg-type]
        assert not connection.is_broken


@pytest.mark.parametrize(
    "answer",
    [
        lambda correlation_id: b"",
        lambda correlation_id: metadata(correlation_id)[:-3],
        lambda correlation_id: metadata(correlation_id + 1),
        lambda correlation_id: frame(encode_response_header(METADATA, 7, correlation_id), b"\0\0"),
        lambda correlation_id: b"\xff\xff\xff\xff",
    ],
    ids=["none", "cut off", "another one", "too short", "negative size"],
)
def test_answer_that_is_none_breaks_the_connection(answer: Answer) -> None:
    with served(versions, answer) as port, closing(Connection("127.0.0.1", port, timeout_s=10)) as connection:
        with pytest.raises(ConnectionFailed, match=f"127.0.0.1:{port}: "):
            connection.call(METADATA, 9, topics=[])
        assert connection.is_broken


def test_nobody_listens_or_answers() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConnectionFailed, match="timed out"):
            Connection("127.0.0.1", port, timeout_s=0.05)

    with pytest.raises(ConnectionFailed, match="refused"):
        Connection("127.0.0.1", port, timeout_s=10)
