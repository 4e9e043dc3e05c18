"""Clients that a test cuts off: they wait, and are served afterwards."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from broker.control.clients import Clients
from protocol.messages.heartbeat import HEARTBEAT
from runtime.deferred import Deferred
from tests.support.eventually import eventually
from tests.support.network import ServerThread, request_frame

SHORT_S = 0.05


class Stage:
    """A server, its client, and answers that wait until the test resolves them."""

    def __init__(self) -> None:
        self.waiting: list[Deferred[Any]] = []
        self.thread = ServerThread({HEARTBEAT: self._serve})
        self.clients = Clients(self.thread.server)

    def _serve(self, ctx: Any, request: Any) -> Any:
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.thread.port), timeout=10)

    def cut(self) -> None:
        self.thread.ask(self.clients.cut)

    def reconnect(self) -> None:
        self.thread.ask(self.clients.reconnect)

    def answer(self) -> None:
        eventually(lambda: self.waiting)
        self.thread.ask(lambda: self.waiting.pop(0).resolve(HEARTBEAT.response()))


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    with made.thread:
        yield made


def received(client: socket.socket, seconds: float = SHORT_S) -> bytes | None:
    """Return what arrives within a time, b"" at the end of the connection, None without any."""
    client.settimeout(seconds)
    try:
        return client.recv(1000)
    except TimeoutError:
        return None


def test_requests_and_answers_arrive_late(stage: Stage) -> None:
    """The answer to a request from before the cut, and the request from meanwhile."""
    with stage.connect() as client:
        client.sendall(request_frame(HEARTBEAT, 4, 1))
        eventually(lambda: stage.waiting)
        stage.cut()
        stage.cut()  # changes nothing
        stage.answer()
        client.sendall(request_frame(HEARTBEAT, 4, 2))
        assert (received(client), stage.waiting) == (None, [])
        stage.reconnect()
        assert received(client, 10)
        stage.answer()
        assert received(client, 10)
        client.sendall(request_frame(HEARTBEAT, 4, 3))
        stage.answer()
        assert received(client, 10)


def test_new_connections_are_served_afterwards(stage: Stage) -> None:
    stage.cut()
    with stage.connect() as client:
        client.sendall(request_frame(HEARTBEAT, 4, 1))
        assert (received(client), stage.waiting) == (None, [])
        stage.reconnect()
        stage.answer()
        assert received(client, 10)
    with stage.connect() as another:
        another.sendall(request_frame(HEARTBEAT, 4, 2))
        stage.answer()
        assert received(another, 10)


@pytest.mark.parametrize("is_close", [True, False])
def test_end_of_a_connection_is_seen_late(stage: Stage, is_close: bool) -> None:
    """Whether the server closes it for its request, or aborts it."""
    with stage.connect() as client:
        client.sendall(request_frame(HEARTBEAT, 4, 1))
        eventually(lambda: stage.waiting)
        stage.cut()
        (connection,) = stage.thread.server.connections
        stage.thread.ask((lambda: connection.close("a test")) if is_close else connection.transport.abort)
        assert received(client) is None
        stage.reconnect()
        with suppress(ConnectionResetError):
            assert received(client, 10) == b""
    assert not stage.thread.server.connections


def test_client_that_leaves_meanwhile_is_forgotten(stage: Stage) -> None:
    with stage.connect() as client:
        client.sendall(request_frame(HEARTBEAT, 4, 1))
        eventually(lambda: stage.waiting)
        stage.cut()
    stage.reconnect()
    eventually(lambda: not stage.thread.server.connections)


def test_full_output_resumes_afterwards(stage: Stage) -> None:
    """A connection whose answers exceed its limit is served again once they are sent."""
    with stage.connect() as client:
        client.sendall(request_frame(HEARTBEAT, 4, 1))
        eventually(lambda: stage.waiting)
        stage.cut()
        (connection,) = stage.thread.server.connections
        large = bytes(2 << 20)
        stage.thread.ask(lambda: connection._out.append(large))
        stage.answer()
        eventually(lambda: connection.is_held_back)
        stage.reconnect()
        left = len(large)
        while left > 0:
            left -= len(received(client, 10) or b"")
        client.sendall(request_frame(HEARTBEAT, 4, 2))
        stage.answer()
        assert received(client, 10)
