"""The outbound client against a scripted server: what it sends, and what it does when the other side fails."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from itertools import pairwise
from typing import Any

import pytest

from broker.network.outbound_client import OutboundClient
from broker.network.outbound_connection import SYSTEM_BUFFER, OutboundConnection
from broker.network.outbound_errors import ClientClosed, ConnectionFailed, OutboundError, RequestTimedOut
from broker.network.outbound_options import OutboundOptions
from broker.network.outbound_security import OutboundSecurity
from config import load
from protocol.error_codes import EncodeError, UnsupportedVersion
from protocol.framing import frame
from protocol.headers import RequestHeader, decode_response_header
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.fetch import FETCH, FetchableTopicResponse, PartitionData
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from tests.support.outbound import OutboundDriver
from tests.support.scripted_broker import Answer, answer, raw, scripted_broker, serves, silent

VERSIONS = serves((METADATA, 4, 7))
METADATA_ANSWER = answer(METADATA, cluster_id="here")
REQUEST = METADATA.request(topics=[])


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def use_uvloop(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def test_request_is_sent_in_the_newest_common_version(use_uvloop: bool) -> None:
    with (
        scripted_broker((VERSIONS, METADATA_ANSWER, METADATA_ANSWER)) as port,
        OutboundDriver(port, use_uvloop=use_uvloop) as driver,
    ):
        first, second = driver.client.request(METADATA, REQUEST), driver.client.request(METADATA, REQUEST, at_most=5)
        responses = [driver.result(each) for each in (first, second)]
    assert [(each.request.version, each.fields.cluster_id) for each in responses] == [(7, "here"), (5, "here")]


def test_raw_response_is_not_decoded() -> None:
    with scripted_broker((VERSIONS, METADATA_ANSWER)) as port, OutboundDriver(port) as driver:
        body = driver.result(driver.client.request_raw(METADATA, REQUEST))
    correlation_id, start = decode_response_header(METADATA, 7, body)
    assert METADATA.response.decode(7, body, start)[0].cluster_id == "here"
    assert correlation_id == 2


@pytest.mark.parametrize("size", [100, 16 << 10, 64 << 10, 100_000, 5 << 20])
def test_responses_of_all_sizes_arrive_whole(use_uvloop: bool, size: int) -> None:
    """Small ones share a buffer, large ones have memory of their own: in each order."""

    def large(header: RequestHeader) -> bytes:
        return frame(header.correlation_id.to_bytes(4, "big") + bytes(range(256)) * (size // 256))

    script = (VERSIONS, large, METADATA_ANSWER, large, large, METADATA_ANSWER)
    with scripted_broker(script) as port, OutboundDriver(port, use_uvloop=use_uvloop) as driver:
        asked = [driver.client.request_raw(METADATA, REQUEST) for _ in range(5)]
        bodies = [bytes(driver.result(each)) for each in asked]
    for place in (0, 2, 3):
        assert bodies[place][4:] == bytes(range(256)) * (size // 256)
    assert bodies[1][4:] == bodies[4][4:]


def test_frames_are_found_in_single_bytes() -> None:
    received: list[bytes] = []
    connection = OutboundConnection(1 << 20, lambda body: received.append(bytes(body)), lambda _: None, lambda: None)
    bodies = [b"", b"a", b"bc" * 20_000, b"d"]
    for byte in b"".join(map(frame, bodies)):
        connection.get_buffer(-1)[:1] = bytes((byte,))
        connection.buffer_updated(1)
    assert received == bodies


def test_records_of_a_response_are_not_copied() -> None:
    """They are views of the memory into which they were received."""
    records = bytes(3 << 20)
    partition = PartitionData(records=records)
    fetched = answer(FETCH, responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    with scripted_broker((serves((FETCH, 4, 12)), fetched)) as port, OutboundDriver(port) as driver:
        response = driver.result(driver.client.request(FETCH, FETCH.request(topics=[])))
    view = response.fields.responses[0].partitions[0].records
    assert view.obj is response.body.obj
    assert bytes(view) == records


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (raw(b"\0\0\0\x09half"), ""),
        (raw(b"\0\0\0\x05\0\0\0\x63\0"), "correlation id 99, expected 2"),
        (lambda header: METADATA_ANSWER(header)[:-3] + b"\xff\xff\xff", ""),
        (raw(b"\xff\xff\xff\xff"), "a frame of -1 bytes"),
        (raw(b"\x40\0\0\0"), "where 0 to 1000000 are allowed"),
        (raw(b"HTTP/1.1 400 Bad Request"), "a frame of"),
        (lambda header: METADATA_ANSWER(header) * 2, "a response without a request"),
    ],
    ids=["cut", "other id", "garbage", "negative", "oversize", "other protocol", "twice"],
)
def test_bad_responses_end_the_connection(use_uvloop: bool, bad: Answer, reason: str) -> None:
    """All requests in flight fail, and the next one connects again."""
    scripts = (VERSIONS, bad), (VERSIONS, METADATA_ANSWER)
    with (
        scripted_broker(*scripts) as port,
        OutboundDriver(port, use_uvloop=use_uvloop, max_frame_bytes=1_000_000, reconnect_backoff_ms=10) as driver,
    ):
        if "without" in reason:
            driver.result(driver.client.request(METADATA, REQUEST))
            driver.turn(0.1)
        else:
            asked = [driver.client.request(METADATA, REQUEST) for _ in range(2)]
            for each in asked:
                error = driver.error(each)
                assert isinstance(error, ConnectionFailed)
                assert str(error).startswith(f"127.0.0.1:{port}: ")
                assert reason in str(error)
        assert not driver.client.is_ready
        assert driver.result(driver.client.request(METADATA, REQUEST)).fields.cluster_id == "here"


def test_silent_peer_times_out(use_uvloop: bool) -> None:
    """The request that has no response in time ends the connection: later ones cannot have their responses either."""
    scripts = (VERSIONS, silent), (VERSIONS, METADATA_ANSWER)
    with (
        scripted_broker(*scripts) as port,
        OutboundDriver(port, use_uvloop=use_uvloop, request_timeout_ms=300) as driver,
    ):
        first, second = driver.client.request(METADATA, REQUEST), driver.client.request(METADATA, REQUEST)
        error = driver.error(first)
        assert isinstance(error, RequestTimedOut)
        assert str(error).endswith("Metadata: no response within 300 ms")
        assert isinstance(driver.error(second), OutboundError)
        assert driver.result(driver.client.request(METADATA, REQUEST)).fields.cluster_id == "here"


@pytest.mark.parametrize(
    "limits",
    [{"connection_setup_timeout_ms": 100}, {"connection_setup_timeout_max_ms": 100}],
)
def test_peer_that_accepts_and_says_nothing(limits: dict[str, Any]) -> None:
    with scripted_broker((silent,)) as port, OutboundDriver(port, **limits) as driver:
        error = driver.error(driver.client.request(METADATA, REQUEST))
    assert isinstance(error, ConnectionFailed)
    assert "not established in time" in str(error)


def test_request_waits_no_longer_than_its_timeout_for_a_connection() -> None:
    with scripted_broker((silent,)) as port, OutboundDriver(port, request_timeout_ms=100) as driver:
        assert isinstance(driver.error(driver.client.request(METADATA, REQUEST)), RequestTimedOut)


def test_refused_connections_back_off(use_uvloop: bool) -> None:
    """50, 100, 200 ms ... up to the limit, as Kafka's clients."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with OutboundDriver(port, use_uvloop=use_uvloop, reconnect_backoff_max_ms=100) as driver:
        failed = []
        for _ in range(4):
            error = driver.error(driver.client.request(METADATA, REQUEST))
            failed.append(time.monotonic())
            assert isinstance(error, ConnectionFailed)
            assert "refused" in str(error)
    waited = [later - earlier for earlier, later in pairwise(failed)]
    assert waited[0] >= 0.045
    assert min(waited[1:]) >= 0.095


def test_unknown_host_is_a_failed_connection() -> None:
    for host in ("no-such-host.invalid", "x" * 70, ".."):
        with OutboundDriver(1, host=host) as driver:
            assert isinstance(driver.error(driver.client.request(METADATA, REQUEST)), ConnectionFailed)


def test_plaintext_peer_ends_the_tls_handshake(use_uvloop: bool) -> None:
    """The event loops' error for it has no text."""

    def refuse() -> None:
        with listener.accept()[0] as connection:
            connection.recv(65_536)

    security = OutboundSecurity(ssl.create_default_context())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=refuse)
        server.start()
        with OutboundDriver(listener.getsockname()[1], security, use_uvloop=use_uvloop) as driver:
            error = driver.error(driver.client.request(METADATA, REQUEST))
        server.join()
    assert str(error).endswith("the other side closed the connection")


def test_connection_that_the_broker_closes_while_idle(use_uvloop: bool) -> None:
    """No request fails: the next one connects again."""
    scripts = (VERSIONS, METADATA_ANSWER), (VERSIONS, METADATA_ANSWER)
    with scripted_broker(*scripts) as port, OutboundDriver(port, use_uvloop=use_uvloop) as driver:
        for _ in scripts:
            driver.result(driver.client.request(METADATA, REQUEST))
            while driver.client.is_ready:
                driver.turn()


def test_closing_fails_all_requests(use_uvloop: bool) -> None:
    with scripted_broker((VERSIONS, silent)) as port, OutboundDriver(port, use_uvloop=use_uvloop) as driver:
        asked = [driver.client.request(METADATA, REQUEST) for _ in range(3)]
        driver.turn(0.1)
        waiting = [driver.client.request(METADATA, REQUEST) for _ in range(3)]
        driver.client.close()
        driver.client.close()
        late = driver.client.request(METADATA, REQUEST)
        assert all(isinstance(driver.error(each), ClientClosed) for each in (*asked, *waiting, late))
        assert len(driver.timers) == 0


def test_closing_while_connecting(use_uvloop: bool) -> None:
    with scripted_broker(()) as port, OutboundDriver(port, use_uvloop=use_uvloop) as driver:
        asked = driver.client.request(METADATA, REQUEST)
        driver.client.close()
        assert isinstance(driver.error(asked), ClientClosed)
        driver.turn()


def test_version_that_the_broker_lacks_fails_that_request_only() -> None:
    with scripted_broker((VERSIONS, METADATA_ANSWER)) as port, OutboundDriver(port) as driver:
        missing = driver.client.request(FETCH, FETCH.request())
        wrong = driver.client.request(METADATA, METADATA.request(topics=[1]))
        sound = driver.client.request(METADATA, REQUEST)
        assert isinstance(driver.error(missing), UnsupportedVersion)
        assert isinstance(driver.error(wrong), (EncodeError, TypeError, AttributeError))
        assert driver.result(sound).fields.cluster_id == "here"


@pytest.mark.parametrize("refusal", [answer(API_VERSIONS, error_code=35), answer(API_VERSIONS, error_code=999)])
def test_refused_versions_are_a_failed_connection(refusal: Answer) -> None:
    with scripted_broker((refusal,)) as port, OutboundDriver(port) as driver:
        error = driver.error(driver.client.request(METADATA, REQUEST))
    assert isinstance(error, ConnectionFailed)
    assert "ApiVersions: " in str(error)


def test_cancelled_requests_leave_the_others_in_order() -> None:
    script = VERSIONS, METADATA_ANSWER, METADATA_ANSWER, answer(METADATA, cluster_id="second")
    with scripted_broker(script) as port, OutboundDriver(port) as driver:
        driver.client.request(METADATA, REQUEST).cancel()  # not sent yet: never sent
        driver.result(driver.client.request(METADATA, REQUEST))
        first, second = driver.client.request(METADATA, REQUEST), driver.client.request(METADATA, REQUEST)
        first.cancel()
        assert driver.result(second).fields.cluster_id == "second"


def test_error_in_a_callback_does_not_end_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    with scripted_broker((VERSIONS, METADATA_ANSWER, METADATA_ANSWER)) as port, OutboundDriver(port) as driver:
        driver.client.request(METADATA, REQUEST).add_done_callback(lambda _: 1 / 0)
        assert driver.result(driver.client.request(METADATA, REQUEST)).fields.cluster_id == "here"
    assert "ZeroDivisionError" in caplog.text


def test_peer_that_stops_reading_holds_requests_back() -> None:
    """Beyond what the transport buffers, requests wait here, and their timeouts count."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with OutboundDriver(port, request_timeout_ms=1_000, connection_setup_timeout_ms=60_000) as driver:
            client = driver.client
            client.request(METADATA, REQUEST)
            driver.turn(0.05)
            peer = listener.accept()[0]
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            size = int.from_bytes(peer.recv(4), "big")
            header = RequestHeader(18, 0, int.from_bytes(peer.recv(size)[4:8], "big"), None, 0)
            peer.sendall(VERSIONS(header))
            driver.turn(0.05)
            large = METADATA.request(topics=[MetadataRequestTopic(name="x" * 30_000)] * 100)
            asked = [client.request(METADATA, large) for _ in range(10)]
            assert len(client._waiting) > 0
            assert all(isinstance(driver.error(each), OutboundError) for each in asked)
            peer.close()


def test_limits_are_those_of_the_configuration() -> None:
    keys = {
        "request.timeout.ms": "1",
        "socket.connection.setup.timeout.ms": "2",
        "socket.connection.setup.timeout.max.ms": "3",
    }
    options = OutboundOptions.from_config(load(overrides=keys), "broker-1")
    assert (options.request_timeout_ms, options.connection_setup_timeout_ms) == (1, 2)
    assert (options.connection_setup_timeout_max_ms, options.client_id) == (3, "broker-1")


@pytest.mark.parametrize("size", [8192, SYSTEM_BUFFER])
def test_receive_buffer(use_uvloop: bool, size: int) -> None:
    """Linux keeps twice the size that is asked for."""
    with (
        scripted_broker((VERSIONS, METADATA_ANSWER, silent)) as port,
        OutboundDriver(port, use_uvloop=use_uvloop, receive_buffer_bytes=size) as driver,
    ):
        driver.result(driver.client.request(METADATA, REQUEST))
        connection = driver.client._connection
        assert connection is not None
        assert connection._transport is not None
        transport = connection._transport.get_extra_info("socket")
        buffer_bytes = transport.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    assert buffer_bytes == 2 * size if size != SYSTEM_BUFFER else buffer_bytes > 2 * 8192


def test_addresses_of_ipv6_have_brackets() -> None:
    loop = asyncio.new_event_loop()
    client = OutboundClient(loop, None, "::1", 9092, OutboundOptions("test"))  # type: ignore[arg-type]
    loop.close()
    assert client.address == "[::1]:9092"
