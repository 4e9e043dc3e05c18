"""Sizes of send buffers, by the client's receive window."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from broker.network import peer_window
from broker.network.peer_window import _LOOKS, WIDE_BYTES, PeerWindow, window_bytes

SMALL, LARGE = 122_368, 159_744
"""The largest window of a client with a receive buffer of 64 KiB that was seen, and the smallest of others."""


class Socket:
    """Has windows that the test sets, and records the sizes of its send buffer."""

    def __init__(self, *windows: int | OSError | None) -> None:
        self.windows = list(windows)
        self.asked: list[int] = []

    def setsockopt(self, level: int, option: int, value: int) -> None:
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_SNDBUF)
        self.asked.append(value)


@pytest.fixture(autouse=True, name="_read")
def read_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    def next_one(sock: Socket) -> int | None:
        found = sock.windows.pop(0)
        if isinstance(found, OSError):
            raise found
        return found

    monkeypatch.setattr(peer_window, "window_bytes", next_one)


@pytest.mark.parametrize(
    ("windows", "asked"),
    [
        ([SMALL] * (_LOOKS - 1), []),
        ([SMALL] * _LOOKS, [WIDE_BYTES]),
        ([0] * _LOOKS, [WIDE_BYTES]),
        ([LARGE], []),
        ([SMALL] * (_LOOKS - 1) + [LARGE], []),
        ([None], []),
        ([SMALL, OSError("gone")], []),
    ],
    ids=["few", "small", "full", "large", "grown", "unknown", "broken"],
)
def test_client_with_a_small_window_gets_a_larger_buffer(windows: list[int], asked: list[int]) -> None:
    """A client that ever had a large window keeps its buffer, and is then no longer checked."""
    sock, window = Socket(*windows), PeerWindow()
    for _ in windows:
        window.look(sock)  # type: ignore[arg-type]
    assert (sock.windows, sock.asked) == ([], asked)
    if len(windows) != _LOOKS - 1:
        window.look(sock)  # type: ignore[arg-type]


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        client.connect(server.getsockname())
        near, _ = server.accept()
        with near:
            yield near, client


def test_window_is_the_clients_free_receive_buffer(ends: tuple[socket.socket, socket.socket]) -> None:
    """A Java consumer's is small, and smaller while it does not read. A closed connection has none."""
    near, client = ends
    near.sendall(bytes(1000))
    client.recv(1000)
    before = window_bytes(near)
    assert before is not None
    assert 16_384 <= before <= SMALL + 10_000
    near.setblocking(False)
    near.send(bytes(1 << 20))
    client.recv(1)
    after = window_bytes(near)
    assert after is not None
    assert after <= before
    near.close()
    with pytest.raises(OSError, match="file descriptor"):
        window_bytes(near)
