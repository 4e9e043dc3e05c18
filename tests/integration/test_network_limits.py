"""Limits on connections, on real sockets: connections that wait, are refused or are closed."""

from __future__ import annotations

import os
import resource
import socket
import time
from concurrent.futures import ThreadPoolExecutor

from tests.support.echo_application import ECHO, WAIT, connect
from tests.support.eventually import eventually
from tests.support.network import ServerThread, request_frame


def test_idle_connections_are_closed(application):
    """connections.max.idle.ms. A connection with a request in progress is not idle."""
    with ServerThread(application.handlers, max_idle_ms=300) as server:
        server.ask(server.server.schedule_idle_sweep)
        began = time.monotonic()
        with connect(server) as idle, connect(server) as waiting:
            waiting.send(WAIT, 4, generation_id=1000)
            assert idle.is_closed()
            assert time.monotonic() - began > 0.2
            assert waiting.receive().error_code == 0


def test_limit_waits_and_limit_per_ip_closes(application):
    """Above max.connections clients stay in the listen queue. Above max.connections.per.ip they are closed."""
    with ServerThread(application.handlers, max_connections=2) as server:
        first, second, third = connect(server), connect(server), connect(server)
        for client in (first, second):
            assert client.call(ECHO, 2, auth_bytes=b"x").auth_bytes == b"x"
        third.send(ECHO, 2, auth_bytes=b"third")
        assert not third.is_closed(0.1)
        first.close()
        third.socket.settimeout(60)
        assert third.receive().auth_bytes == b"third"
        second.close()
        third.close()

    with ServerThread(application.handlers, max_connections_per_ip=1) as server, connect(server) as first:
        assert first.call(ECHO, 2, auth_bytes=b"x").auth_bytes == b"x"
        with connect(server) as second:
            assert second.is_closed()


def test_max_connection_creation_rate(application):
    """Connections beyond the rate are accepted later, not refused."""
    with ServerThread(application.handlers) as server:
        server.rate.per_second = 20
        began = time.monotonic()
        clients = [connect(server) for _ in range(30)]
        for client in clients:
            assert client.call(ECHO, 2, auth_bytes=b"x").auth_bytes == b"x"
        assert time.monotonic() - began > 0.3
        for client in clients:
            client.close()


def test_running_out_of_file_descriptors_pauses_accepting(application):
    """EMFILE: open connections are served, and accepting resumes when descriptors are free."""
    with ServerThread(application.handlers) as server, connect(server) as first:
        assert first.call(ECHO, 2, auth_bytes=b"x").auth_bytes == b"x"
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        clients = [socket.socket() for _ in range(5)]
        highest = max(each.fileno() for each in clients)
        fillers = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
        try:
            try:
                while True:
                    fillers.append(os.dup(0))
            except OSError:
                pass
            for each in clients:
                each.connect(("127.0.0.1", server.port))
            assert first.call(ECHO, 2, auth_bytes=b"y").auth_bytes == b"y"
            eventually(lambda: server.server.listeners[0]._paused)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for each in fillers:
                os.close(each)
        for each in clients:
            each.settimeout(60)
            each.sendall(request_frame(ECHO, 2, 1, auth_bytes=b"z"))
            assert each.recv(1000).endswith(b"z" + bytes(9))
            each.close()


def test_request_memory_is_bounded(application):
    """Above queued.max.request.bytes a large request waits for the one before; small ones are read."""
    blob = bytes(range(250)) * 40_000
    with ServerThread(application.handlers) as server, ThreadPoolExecutor() as pool:
        memory = server.server.memory
        memory.limit_bytes = 1_000_000
        with connect(server) as first, connect(server) as second, connect(server) as small:
            frame = first.request_frame(ECHO, 2, auth_bytes=blob)
            first.socket.sendall(frame[:5_000_000])
            eventually(lambda: memory.held_bytes > 5_000_000)
            answer = pool.submit(second.call, ECHO, 2, auth_bytes=blob)
            eventually(lambda: memory.waiting_count == 1)
            for _ in range(10):
                assert small.call(ECHO, 2, auth_bytes=b"x").auth_bytes == b"x"
            assert memory.held_bytes < len(blob) + 1_000_000
            assert not answer.done()
            first.socket.sendall(frame[5_000_000:])
            first.expect(ECHO, 2, 1)
            assert first.receive().auth_bytes == blob
            assert answer.result(60).auth_bytes == blob
        eventually(lambda: server.server.held_bytes == 0)


def test_socket_options_are_set(application):
    """TCP_NODELAY and keep-alive; socket.send.buffer.bytes on each connection (the kernel doubles it)."""
    with ServerThread(application.handlers, send_buffer_bytes=65_536) as server, connect(server) as client:
        client.call(ECHO, 2, auth_bytes=b"x")
        (connection,) = server.server.connections
        sock = connection.transport._sock
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 131_072
        assert client.socket.getsockname() == (connection.client_host, connection.client_port)
        assert client.socket.getpeername() == (connection.local_host, connection.local_port)
