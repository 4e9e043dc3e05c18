"""The network room without the rest of the broker: a `Server` with a test's own handlers.

`Link` drives one connection by hand, without a socket; `ServerThread` serves real sockets from a loop in a thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace, TracebackType
from typing import Any

from broker.network.connection import Connection
from broker.network.connection_limits import UNLIMITED, CreationRate
from broker.network.listener import Listener, bind
from broker.network.server import Server
from broker.process.event_loop import new_event_loop
from broker.requests.dispatcher import Dispatcher
from broker.requests.served_api import FastPathFactory, Implementation, ServedApi
from protocol.framing import frame
from protocol.headers import decode_response_header, encode_request_header
from protocol.schema import Api, Chunk, Struct
from runtime.clock import Clock
from runtime.purgatory import Purgatory
from runtime.timers import Timers
from runtime.turn import Turn
from tests.support.fake_loop import FakeLoop

Handlers = Mapping[Api, Callable[..., Any]]


def dispatcher_of(handlers: Handlers, services: Mapping[str, object] | None = None) -> Dispatcher:
    """Return a dispatcher with these handlers, each for all versions of its API."""
    return Dispatcher(served_by(handlers), services or {})


def served_by(handlers: Handlers, fast_paths: Mapping[Api, FastPathFactory] | None = None) -> dict[int, ServedApi]:
    """Return APIs with these handlers and fast paths; an API may be a test's own."""
    served = {api.key: ServedApi(api.key, api.versions) for api in handlers}
    for api, handler in handlers.items():
        served[api.key].implementation = Implementation(api, handler, (fast_paths or {}).get(api))
    return served


def request_frame(api: Api, version: int, correlation_id: int, **fields: Any) -> bytes:
    """Return the frame of a request, with its size in front."""
    body = api.request.encode(version, api.request(**fields))
    return frame(encode_request_header(api, version, correlation_id, "client"), body)


def answers_in(sent: bytes, expected: list[tuple[Api, int]]) -> list[tuple[int, Struct]]:
    """Return the answers in a stream of bytes, each with its correlation id; all bytes must be used."""
    answers, position = [], 0
    for api, version in expected:
        size = int.from_bytes(sent[position : position + 4])
        body = sent[position + 4 : position + 4 + size]
        correlation_id, start = decode_response_header(api, version, body)
        answers.append((correlation_id, api.response.decode(version, body, start)[0]))
        position += 4 + size
    assert position == len(sent), f"{len(sent) - position} bytes more than expected"
    return answers


class FakeTransport:
    """Accepts everything that is sent, or holds it back while `blocked`."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.sends = 0
        self.queued = bytearray()
        self.sendfile_bytes = 0
        self.blocked = False
        self.reading = True
        self.closed: str | None = None
        self.connection: Connection

    @property
    def queued_bytes(self) -> int:
        return len(self.queued)

    def send(self, chunks: list[Chunk]) -> int:
        self.sends += 1
        for chunk in chunks:
            data = chunk if isinstance(chunk, bytes | bytearray | memoryview) else chunk.read()  # type: ignore[attr-defined]
            (self.queued if self.blocked else self.sent).extend(data)
        return self.queued_bytes

    def unblock(self) -> None:
        self.blocked = False
        self.sent += self.queued
        self.queued.clear()
        if self.closed == "when sent":
            self.connection.on_lost()
        else:
            self.connection.on_sent()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close_when_sent(self) -> None:
        self.closed = self.closed or "when sent"
        if not self.queued:
            self.connection.on_lost()

    def abort(self) -> None:
        self.closed = "aborted"
        self.queued.clear()
        self.connection.on_lost()


class Link:
    """A connection whose other end is the test."""

    def __init__(self, handlers: Handlers) -> None:
        self.loop = FakeLoop()
        self.turn = Turn(self.loop.call_soon)
        self.server = Server(self.loop, self.loop.clock, self.turn, dispatcher_of(handlers))  # type: ignore[arg-type]
        self.connection, self.transport = self.connect()

    def connect(self) -> tuple[Connection, FakeTransport]:
        connection = Connection(self.server, "PLAINTEXT", "PLAINTEXT", ("127.0.0.1", 40000), ("127.0.0.1", 9092))
        transport = FakeTransport()
        transport.connection = connection
        connection.transport = transport
        self.server._connections[connection] = None
        self.server.limits.opened("PLAINTEXT", "127.0.0.1")
        return connection, transport

    def receive(self, data: bytes, piece: int | None = None, settle: bool = True) -> int:
        """Let bytes arrive, in pieces of that size if given; the turn ends after each piece.

        Returns the number of bytes that the connection accepted.
        """
        position = 0
        while position < len(data) and self.transport.closed is None and self.transport.reading:
            try:
                room = self.connection.get_buffer()
            except BlockingIOError:
                room = memoryview(b"")
                assert not self.transport.reading
            size = min(len(room), piece or len(data), len(data) - position)
            if size:
                room[:size] = data[position : position + size]
                self.connection.buffer_updated(size)
                position += size
            if settle:
                self.loop.settle()
        return position

    def answers(self, *expected: tuple[Api, int]) -> list[tuple[int, Struct]]:
        """Return the answers sent so far, decoded."""
        return answers_in(bytes(self.transport.sent), list(expected))


class ServerThread:
    """A `Server` on a port of loopback, its event loop in a thread of its own. A context manager."""

    def __init__(self, handlers: Handlers, *, use_uvloop: bool = True, **settings: Any) -> None:
        self.loop = new_event_loop() if use_uvloop else asyncio.new_event_loop()
        clock = Clock()
        turn = Turn(self.loop.call_soon)
        self.timers = Timers(self.loop, clock)
        self.purgatory = Purgatory(self.timers, turn)
        self.broker = SimpleNamespace(loop=self.loop, clock=clock, purgatory=self.purgatory, timers=self.timers)
        self.server = Server(self.loop, clock, turn, dispatcher_of(handlers, {"timers": self.timers}))
        self.broker.server = self.server
        for name, value in settings.items():
            assert hasattr(self.server, name) or hasattr(self.server.limits, name), name
            setattr(self.server if hasattr(self.server, name) else self.server.limits, name, value)
        self.rate = CreationRate(UNLIMITED, clock.monotonic_ms)
        listener = Listener("PLAINTEXT", "PLAINTEXT", bind("127.0.0.1", 0, -1), [self.rate])
        self.port = listener.port
        self.server.open([listener])
        self._thread = threading.Thread(target=self._run, name="server under test")

    def __enter__(self) -> ServerThread:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.server.close()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def ask(self, function: Callable[[], Any]) -> Any:
        """Call a function on the loop's thread and return its result."""

        async def call() -> Any:
            return function()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(60)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
