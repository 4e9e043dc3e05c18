"""Send buffers, by how much a client has room for."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from broker.network.peer_window import _LOOKS, WIDE_BYTES, PeerWindow, window_bytes

DEFAULT_BYTES = 102_400
ANSWER = bytes(1 << 20)


@contextmanager
def connected(receive_buffer_bytes: int | None) -> Iterator[tuple[socket.socket, socket.socket]]:
    """The broker's side, with the buffer that Kafka's default asks for, and the client's."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        if receive_buffer_bytes is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        client.connect(server.getsockname())
        client.settimeout(60)
        near, _ = server.accept()
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, DEFAULT_BYTES)
        near.setblocking(False)
        with near:
            yield near, client


def send_buffer_bytes(near: socket.socket) -> int:
    return near.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


def answer(near: socket.socket, client: socket.socket, window: PeerWindow) -> None:
    """Send one that is not taken whole at once."""
    sent = near.send(ANSWER)
    assert sent < len(ANSWER)
    window.look(near)
    received = 0
    while received < len(ANSWER):
        received += len(client.recv(1 << 20))
        if sent < len(ANSWER):
            with suppress(BlockingIOError):
                sent += near.send(ANSWER[sent:])


def test_client_that_takes_little_at_a_time_gets_a_larger_buffer() -> None:
    """As a Java consumer does; after some answers, and then no more is looked at it."""
    window = PeerWindow()
    with connected(65_536) as (near, client):
        for _ in range(_LOOKS):
            assert send_buffer_bytes(near) == 2 * DEFAULT_BYTES  # the kernel doubles it
            answer(near, client, window)
        widest = int(Path("/proc/sys/net/core/wmem_max").read_text())
        assert send_buffer_bytes(near) == 2 * min(WIDE_BYTES, max(widest, DEFAULT_BYTES))
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, DEFAULT_BYTES)
        window.look(near)
        assert send_buffer_bytes(near) == 2 * DEFAULT_BYTES


def test_client_whose_window_grows_keeps_the_small_one() -> None:
    """Also while it happens to have no room."""
    window = PeerWindow()
    with connected(None) as (near, client):
        until = time.monotonic() + 60
        while (window_bytes(near) or 0) <= 256 * 1024:
            answer(near, client, PeerWindow())
            assert time.monotonic() < until
        for _ in range(2 * _LOOKS):
            answer(near, client, window)
        assert send_buffer_bytes(near) == 2 * DEFAULT_BYTES


def test_connection_that_is_broken() -> None:
    window = PeerWindow()
    with connected(65_536) as (near, _):
        near.close()
        window.look(near)
        window.look(near)
