"""Links to other nodes that a test cuts: what is sent and closed meanwhile arrives afterwards."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.control.links import Links
from broker.network.outbound_connection import OutboundConnection
from broker.process.event_loop import new_event_loop

SHORT_S = 0.05


class Stage:
    """A node that connects to `port`, and the socket of the other node, which listens there."""

    def __init__(self, use_uvloop: bool) -> None:
        self.loop = new_event_loop() if use_uvloop else asyncio.new_event_loop()
        self.links = Links()
        self.other = socket.create_server(("127.0.0.1", 0))
        self.other.settimeout(10)
        self.port = self.other.getsockname()[1]
        self.frames: list[bytes] = []
        self.lost: list[Exception | None] = []
        self.connection = OutboundConnection(
            1 << 20, lambda frame: self.frames.append(bytes(frame)), self.lost.append, lambda: None
        )
        self.peer: socket.socket | None = None

    def connecting(self) -> asyncio.Task[None]:
        return self.loop.create_task(self.links.open_connection(lambda: self.connection, "127.0.0.1", self.port))

    def connect(self) -> socket.socket:
        self.loop.run_until_complete(self.connecting())
        self.peer = self.other.accept()[0]
        self.peer.settimeout(10)
        return self.peer

    def turn(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(SHORT_S))

    def until(self, done: Callable[[], object]) -> None:
        async def wait() -> None:
            while not done():
                await asyncio.sleep(0.001)

        self.loop.run_until_complete(asyncio.wait_for(wait(), 10))

    def cut(self, *, sending: bool = True, receiving: bool = True) -> None:
        """Cut the link, or mend what is False; another link stays cut."""

        async def cut() -> None:
            self.links.cut([1, self.port] if sending else [1], [1, self.port] if receiving else [1])

        self.loop.run_until_complete(cut())

    def mend(self) -> None:
        self.cut(sending=False, receiving=False)

    def peer_receives(self, seconds: float = SHORT_S) -> bytes | None:
        """Return what arrives at the other node within a time, b"" at the end of the connection, None without any."""
        assert self.peer is not None
        self.peer.settimeout(seconds)
        try:
            return self.peer.recv(100)
        except TimeoutError:
            return None


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    made = Stage(bool(request.param))
    yield made
    made.connection.close()
    made.turn()
    made.loop.close()
    for each in (made.other, made.peer):
        if each is not None:
            each.close()


def frame(text: bytes) -> bytes:
    return len(text).to_bytes(4) + text


def test_a_whole_link_passes_all(stage: Stage) -> None:
    stage.connect().sendall(frame(b"answer"))
    stage.connection.send(b"request")
    stage.until(lambda: stage.frames)
    assert (stage.frames, stage.peer_receives(10)) == ([b"answer"], b"request")


def test_both_directions_arrive_late_and_in_order(stage: Stage) -> None:
    peer = stage.connect()
    stage.cut()
    for each in (b"a", b"b"):
        stage.connection.send(each)
        peer.sendall(frame(each))
    stage.turn()
    assert (stage.frames, stage.peer_receives(), stage.lost) == ([], None, [])
    stage.mend()
    stage.connection.send(b"c")
    stage.until(lambda: len(stage.frames) == 2)
    assert stage.frames == [b"a", b"b"]
    arrived = b""
    while len(arrived) < 3:
        arrived += stage.peer_receives(10) or b""
    assert arrived == b"abc"


@pytest.mark.parametrize("sends", [True, False])
def test_one_direction_passes(stage: Stage, sends: bool) -> None:
    peer = stage.connect()
    stage.cut(sending=not sends, receiving=sends)
    stage.connection.send(b"request")
    peer.sendall(frame(b"answer"))
    stage.turn()
    assert stage.peer_receives() == (b"request" if sends else None)
    assert stage.frames == ([] if sends else [b"answer"])


def test_no_end_sees_the_other_close(stage: Stage) -> None:
    """The other node learns afterwards that this one has given the connection up, after what was sent before."""
    stage.connect()
    stage.cut()
    stage.connection.send(b"last")
    stage.connection.close(OSError("no answer in time"))
    stage.until(lambda: stage.lost)
    assert str(stage.lost[0]) == "no answer in time"
    assert stage.peer_receives() is None
    stage.mend()
    stage.turn()
    assert (stage.peer_receives(10), stage.peer_receives(10)) == (b"last", b"")
    assert len(stage.lost) == 1


def test_end_by_the_other_node_is_seen_late(stage: Stage) -> None:
    peer = stage.connect()
    stage.cut()
    peer.close()
    stage.turn()
    assert stage.lost == []
    stage.mend()
    stage.until(lambda: stage.lost)


def test_close_is_seen_where_only_receiving_is_cut(stage: Stage) -> None:
    stage.connect()
    stage.cut(sending=False)
    stage.connection.close()
    stage.until(lambda: stage.lost)
    assert stage.peer_receives(10) == b""


def test_new_connection_waits_for_the_link(stage: Stage) -> None:
    """The other node sees no attempt meanwhile. An attempt that is given up is none later."""
    stage.cut(receiving=False)
    connecting, given_up = stage.connecting(), stage.connecting()
    stage.turn()
    given_up.cancel()
    stage.other.settimeout(SHORT_S)
    with pytest.raises(TimeoutError):
        stage.other.accept()
    stage.mend()
    stage.loop.run_until_complete(connecting)
    stage.peer = stage.other.accept()[0]
    with pytest.raises(TimeoutError):
        stage.other.accept()


def test_commands_name_links_by_port(stage: Stage) -> None:
    """A cut replaces the earlier one."""
    stage.connect()
    stage.cut()
    stage.connection.send(b"late")

    async def cut_another() -> Any:
        stage.links.cut([stage.port + 1], [])

    stage.loop.run_until_complete(cut_another())
    stage.turn()
    assert stage.peer_receives(10) == b"late"
