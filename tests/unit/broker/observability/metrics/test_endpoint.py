"""The HTTP server of the endpoint, with an application of the test."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from broker.network.listener import bind
from broker.observability.metrics import endpoint

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", [])
    return [b"here"]


@pytest.fixture
def server() -> Iterator[endpoint._Server]:
    (sock,) = bind("127.0.0.1", 0, receive_buffer_bytes=-1)
    sock.setblocking(True)
    sock.listen()
    server = endpoint._Server(sock)
    server.set_app(application)
    yield server
    server.server_close()


def ask(server: endpoint._Server) -> bytes:
    """Return the whole response to a request, or nothing if the connection is closed."""
    with socket.create_connection(server.socket.getsockname(), timeout=60) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        server.handle_request()
        answer = b""
        with suppress(ConnectionResetError):
            while piece := client.recv(1024):
                answer += piece
        return answer


def test_server_recovers_when_threads_are_available_again(
    server: endpoint._Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests that got no thread do not count as running."""

    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none_left)
        for _ in range(endpoint._MOST_THREADS):
            assert ask(server) == b""
    assert ask(server).endswith(b"here")


def test_threads_are_limited(server: endpoint._Server) -> None:
    """With slow responses, and with clients that were closed but still occupy threads."""
    go_on = threading.Event()

    def slow(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        assert go_on.wait(60)
        return application(environ, start_response)

    server.set_app(slow)
    address = server.socket.getsockname()
    clients = []
    for _ in range(endpoint._MOST_THREADS + 1):
        clients.append(socket.create_connection(address, timeout=60))
        clients[-1].sendall(b"GET / HTTP/1.0\r\n\r\n")
        server.handle_request()
    assert clients[-1].recv(1) == b""
    for gone in clients[: endpoint._MOST_THREADS - endpoint._MOST_REQUESTS]:
        assert gone.recv(1) == b""
    go_on.set()
    for served in clients[-1 - endpoint._MOST_REQUESTS : -1]:
        assert b"200 OK" in served.recv(1024)
    for each in clients:
        each.close()
