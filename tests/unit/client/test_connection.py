"""The blocking client against a scripted server."""

from __future__ import annotations

import socket
import time

import pytest

from client.connection import Connection
from client.errors import BadResponse, ClientError, ConnectFailed, ConnectionLost, NoResponse, RequestNotSent
from protocol.error_codes import UnsupportedVersion
from protocol.framing import frame
from protocol.messages.fetch import FETCH
from protocol.messages.metadata import METADATA
from protocol.messages.produce import PRODUCE
from tests.support.scripted_broker import Answer, answer, raw, scripted_broker, serves, silent

METADATA_ANSWER = answer(METADATA, cluster_id="here")


def connect(port: int, timeout_s: float = 10, **options: object) -> Connection:
    return Connection("127.0.0.1", port, timeout_s=timeout_s, client_id="test", **options)  # type: ignore[arg-type]


def test_newest_common_version_is_chosen() -> None:
    with scripted_broker((serves((METADATA, 4, 7)), METADATA_ANSWER)) as port, connect(port) as client:
        version = client.versions().newest(METADATA)
        assert (version, client.versions().newest(METADATA, at_most=5)) == (7, 5)
        assert client.call(METADATA, version, topics=[]).cluster_id == "here"


@pytest.mark.parametrize(("api", "at_most"), [(METADATA, 3), (FETCH, None)])
def test_missing_version_is_an_error(api: object, at_most: int | None) -> None:
    with scripted_broker((serves((METADATA, 4, 7)),)) as port, connect(port) as client:
        with pytest.raises(UnsupportedVersion, match=r"it serves (Metadata|Fetch) in versions"):
            client.versions().newest(api, at_most)  # type: ignore[arg-type]
        assert not client.is_broken


def test_error_in_answer_to_api_versions() -> None:
    from protocol.messages.api_versions import API_VERSIONS

    with (
        scripted_broker((answer(API_VERSIONS, error_code=35),)) as port,
        connect(port) as client,
        pytest.raises(BadResponse, match="ApiVersions: "),
    ):
        client.versions()


def test_pipelined_requests_are_answered_in_order() -> None:
    with scripted_broker((METADATA_ANSWER, METADATA_ANSWER)) as port, connect(port) as client:
        sent = [client.send(METADATA, version, topics=[]) for version in (5, 9)]
        received = [client.receive() for _ in sent]
    assert [each.request for each in received] == sent
    assert [each.fields.cluster_id for each in received] == ["here", "here"]
    assert [each.extra_bytes for each in received] == [0, 0]


def test_request_without_response_is_not_waited_for() -> None:
    with scripted_broker((raw(b""), METADATA_ANSWER)) as port, connect(port) as client:
        client.send(PRODUCE, 9, acks=0, timeout_ms=1, topic_data=[], is_answered=False)
        assert client.call(METADATA, 7, topics=[]).cluster_id == "here"


def test_raw_frames_are_exchanged() -> None:
    with scripted_broker((METADATA_ANSWER, METADATA_ANSWER)) as port, connect(port) as client:
        _, request = client.session.encode(METADATA, 7, METADATA.request(topics=[]))
        client.send_frame(request)
        body = bytes(client.receive_frame())
        client.send_frame(request)
        assert bytes(client.receive_into(bytearray(1000))) == frame(body)


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ((raw(b"\0\0\0\x09half"),), ConnectionLost),
        ((raw(b"\0\0\0\x05\0\0\0\x63\0"),), BadResponse),
        ((lambda header: METADATA_ANSWER(header)[:-3] + b"\xff\xff\xff",), BadResponse),
        ((raw(b"\xff\xff\xff\xff"),), BadResponse),
        ((raw(b"\x7f\xff\xff\xff"),), BadResponse),
        ((raw(b"HTTP/1.1 400"),), BadResponse),
        ((silent,), NoResponse),
        ((lambda header: METADATA_ANSWER(header)[:-3], silent), NoResponse),
    ],
    ids=["cut", "other id", "garbage", "negative", "oversize", "other protocol", "silent", "stalled"],
)
def test_bad_answers_break_the_connection(script: tuple[Answer, ...], error: type[ClientError]) -> None:
    with scripted_broker(script) as port, connect(port, 0.5) as client:
        if error is NoResponse and len(script) == 2:
            client.send(METADATA, 7, topics=[])
        with pytest.raises(error, match=rf"^127\.0\.0\.1:{port}: "):
            client.call(METADATA, 7, topics=[])
        assert client.is_broken


def test_connection_that_the_broker_closed_says_so() -> None:
    with scripted_broker(()) as port, connect(port) as client, pytest.raises(ConnectionLost) as failed:
        client.call(METADATA, 7, topics=[])
    assert failed.value.is_closed


def test_deadline_limits_the_whole_response() -> None:
    """A server that sends a byte now and then does not extend it."""

    def drip(header: object) -> bytes:
        time.sleep(0.2)
        return b"\0"

    with scripted_broker((lambda header: b"\0\0\1\0", *[drip] * 20)) as port, connect(port, 0.5) as client:
        for _ in range(21):
            client.send(METADATA, 7, topics=[])
        began = time.monotonic()
        with pytest.raises(NoResponse, match="no answer in time"):
            client.receive()
    assert time.monotonic() - began < 3


def test_sending_to_a_stuck_broker_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, connect(listener.getsockname()[1], 0.2) as client:
        with pytest.raises(RequestNotSent, match="the request cannot be sent"):
            client.send_frame(bytes(64 << 20))
        assert client.is_broken


def test_refused_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ConnectFailed, match="refused"):
        connect(port)


def test_failed_tls_closes_the_socket() -> None:
    opened: list[socket.socket] = []

    def refuse(plain: socket.socket) -> socket.socket:
        opened.append(plain)
        raise OSError("no TLS")

    with scripted_broker(()) as port, pytest.raises(ConnectFailed, match="no TLS"):
        connect(port, secure=refuse)
    assert opened[0].fileno() == -1


def test_large_response_arrives_whole() -> None:
    body = bytes(range(256)) * 80_000
    with scripted_broker((lambda header: frame(body),)) as port, connect(port) as client:
        client.send(METADATA, 7, topics=[])
        assert client.receive_frame() == body


def test_response_above_the_limit() -> None:
    with scripted_broker((raw(b"\0\0\4\0"),)) as port, connect(port, max_frame_bytes=1023) as client:
        client.send(METADATA, 7, topics=[])
        with pytest.raises(BadResponse, match="a frame of 1024 bytes"):
            client.receive_frame()
