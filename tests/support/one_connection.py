"""A client on one end of a socket pair, and a broker with real logs on the other, in the test's own thread.

A request runs through all code of the broker.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from broker.network.connection import Connection
from broker.network.plaintext import PlaintextTransport
from broker.network.server import Server
from broker.requests.served_api import ServedApi
from protocol.schema import Api, Struct
from runtime.turn import Turn
from tests.support.data_broker import DataBroker
from tests.support.fake_loop import FakeLoop
from tests.support.network import answers_in, request_frame
from tests.support.offered import dispatcher_for

ROOT = Path(__file__).parents[2]
_ROOMS = {
    room: str(ROOT / room) + "/"
    for room in ("protocol", "storage", "metadata", "coordinator", "runtime", "config", "controller", "broker")
}


class _Loop(FakeLoop):
    """An event loop that serves sockets when the test calls it."""

    def add_reader(self, fd: int, callback: object) -> None: ...
    def remove_reader(self, fd: int) -> None: ...


class OneConnection:
    """`call` sends a request and returns its answer; `traced` lists the project's functions that it called, in order.

    A function is "path in the project, qualified name"; a decoder made from a schema is "schema, decode".
    Comprehensions, lambdas and the `__new__` of tuples are left out: they differ between versions of Python.
    """

    def __init__(self, directory: Path, served: Mapping[int, ServedApi] | None = None) -> None:
        """`served`: the APIs; by default those of a node alone."""
        self.broker = DataBroker(directory)
        loop = _Loop(self.broker.clock)
        self.loop = self.broker.loop = loop
        turn = Turn(loop.call_soon)
        self.broker.purgatory._turn = turn
        self.server = Server(loop, loop.clock, turn, dispatcher_for(self.broker, served))  # type: ignore[arg-type]
        here, self.client = socket.socketpair()
        here.setblocking(False)
        self.client.settimeout(10)
        self.connection = Connection(self.server, "PLAINTEXT", "PLAINTEXT", ("127.0.0.1", 40000), ("127.0.0.1", 9092))
        self._transport = PlaintextTransport(loop, here, self.connection, hang_ups=None)  # type: ignore[arg-type]
        self.traced: list[tuple[str, str]] = []

    def __enter__(self) -> OneConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        self._transport.abort()
        self.broker.close()

    def call(self, api: Api, version: int, **fields: Any) -> Struct:
        """Send a request that is answered within the turn in which it arrives."""
        self.client.sendall(request_frame(api, version, 1, **fields))
        self.traced = []
        before = sys.getprofile()
        sys.setprofile(self._on_event)
        try:
            self.readable()
        finally:
            sys.setprofile(before)
        ((_, answer),) = answers_in(self.client.recv(1 << 20), [(api, version)])
        return answer

    def readable(self) -> None:
        """Serve the bytes that the client sent."""
        self._transport._on_readable()
        self.loop.settle()

    def _on_event(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self.traced += self._functions(frame.f_code.co_filename, frame.f_code.co_qualname)

    @staticmethod
    def _functions(path: str, name: str) -> Iterator[tuple[str, str]]:
        if path.startswith("<decode "):
            yield "schema", "decode"
        elif not name.endswith(">"):
            for room, root in _ROOMS.items():
                if path.startswith(root):
                    yield f"{room}/{path.removeprefix(root)}", name
