"""Server: limits and sums over all connections."""

import gc
import socket
from types import SimpleNamespace

import pytest

from broker.network.connection import Connection
from protocol.messages.heartbeat import HEARTBEAT
from runtime.deferred import Deferred
from tests.support.eventually import eventually
from tests.support.network import Link, ServerThread, request_frame


@pytest.fixture
def waiting():
    return []


@pytest.fixture
def link(waiting):
    def wait(ctx, request):
        deferred = Deferred()
        waiting.append(deferred)
        return deferred

    return Link({HEARTBEAT: wait})


def test_idle_connections_are_closed_busy_ones_are_not(link, waiting):
    """connections.max.idle.ms: bytes in either direction count, and so does a waiting request."""
    link.server.max_idle_ms = 800
    link.server.schedule_idle_sweep()
    _idle, idle_transport = link.connect()
    parked, parked_transport = link.connect()
    link.connection, link.transport = parked, parked_transport
    link.receive(request_frame(HEARTBEAT, 4, 1))
    busy, busy_transport = link.connect()
    link.connection, link.transport = busy, busy_transport
    for byte in (1000).to_bytes(4) + bytes(8):
        link.loop.advance(150)
        link.receive(bytes([byte]))

    assert idle_transport.closed == "aborted"
    assert parked_transport.closed is None
    assert busy_transport.closed is None


def test_negative_idle_time_disables_the_check(link):
    link.server.max_idle_ms = -1
    link.server.schedule_idle_sweep()
    link.loop.advance(10_000_000)

    assert link.transport.closed is None


def test_longest_idle_connection_of_others_is_closed(link):
    """The inter-broker listener may exceed max.connections at their cost (KIP-402)."""
    link.server.limits.protected_listener = "INTERNAL"
    link.server.limits.max_connections = 2
    link.connection.idle_since_ms, link.connection.active = 50, False
    older, older_transport = link.connect()
    older.idle_since_ms, older.active = 20, False
    internal, internal_transport = link.connect()
    internal.listener_name = "INTERNAL"
    internal.idle_since_ms, internal.active = 1, False

    link.server._close_least_active()

    assert older_transport.closed == "aborted"
    assert internal_transport.closed is None
    assert link.transport.closed is None


def test_unauthenticated_connections_are_closed_first(link):
    """However long authenticated clients are idle. Else anyone could have them closed just by connecting."""
    link.server.limits.protected_listener = "INTERNAL"
    link.connection.idle_since_ms, link.connection.active = 0, False
    half_open = [link.connect() for _ in range(2)]
    for idle_since_ms, (connection, _) in zip((20, 10), half_open, strict=True):
        connection.authenticator = SimpleNamespace(admitted=False, close=lambda: None)
        connection.idle_since_ms = idle_since_ms

    link.server._close_least_active()

    assert [transport.closed for _, transport in half_open] == [None, "aborted"]
    assert link.transport.closed is None


def test_stop_receiving_answers_waiting_requests_only(link, waiting):
    """It is the first half of a shutdown. The end of a saturation does not undo it."""
    link.receive(request_frame(HEARTBEAT, 4, 1))
    assert link.server.busy
    link.server.stop_receiving()
    link.server.queued(1)
    link.server.queued(-1)
    assert not link.transport.reading

    waiting[0].resolve(HEARTBEAT.response())
    link.loop.settle()
    assert [number for number, _ in link.answers((HEARTBEAT, 4))] == [1]
    assert not link.server.busy


def test_close_ends_all_connections(link, waiting):
    """With their waiting requests."""
    cancelled = []
    link.receive(request_frame(HEARTBEAT, 4, 1))
    waiting[0].on_cancel(lambda: cancelled.append(1))
    link.connect()

    link.server.close()

    assert list(link.server.connections) == []
    assert cancelled == [1]
    assert link.server.limits.total == 0


def test_closed_connections_stay_in_the_sums(link):
    """Of bytes sent by sendfile, and of connections."""
    _, lasting = link.connect()
    lasting.sendfile_bytes = 10
    _, ending = link.connect()
    ending.sendfile_bytes = 5
    assert (link.server.sendfile_bytes, link.server.ended_count) == (15, 0)

    ending.abort()
    ending.abort()

    assert (link.server.sendfile_bytes, link.server.ended_count) == (15, 1)


def test_connection_above_the_rate_is_closed_late(link):
    """Once the client may reconnect. Until then it counts as open."""
    listener = SimpleNamespace(name="PLAINTEXT", resume=lambda: None)
    link.server.connection_quotas = SimpleNamespace(wait_ms=lambda address: 700)
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()) as client:
        link.server._accepted(listener, door.accept()[0])
        client.setblocking(False)
        link.loop.advance(699)
        with pytest.raises(BlockingIOError):
            client.recv(1)
        assert link.server.limits.total == 2
        link.loop.advance(1)
        assert client.recv(1) == b""
    assert link.server.limits.total == 1


@pytest.mark.parametrize("use_uvloop", [True, False])
def test_closed_connections_leave_no_cycles(use_uvloop):
    """They would stay until the garbage collector runs, which is seldom. A client that connects for each request would
    make the broker grow.
    """
    with ServerThread({HEARTBEAT: lambda ctx, request: HEARTBEAT.response()}, use_uvloop=use_uvloop) as thread:
        for number in range(3):
            with socket.create_connection(("127.0.0.1", thread.port)) as client:
                client.sendall(request_frame(HEARTBEAT, 4, number))
                assert client.recv(100)
            eventually(lambda: not thread.ask(lambda: thread.server._connections))
        gc.collect()
        gc.disable()
        try:
            with socket.create_connection(("127.0.0.1", thread.port)) as client:
                client.sendall(request_frame(HEARTBEAT, 4, 9))
                assert client.recv(100)
                assert connections() == 1
            eventually(lambda: not thread.ask(lambda: thread.server._connections))
            assert not connections()
        finally:
            gc.enable()


def connections():
    return sum(type(each) is Connection for each in gc.get_objects())
