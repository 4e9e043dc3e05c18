"""Connections of clients that a test can cut, as a network that loses packets does.

Nothing is received and nothing is sent, and no connection is seen to end. The kernel establishes new connections, and
nothing answers on them. Afterwards everything that has waited passes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from broker.network.output_queue import release

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.network.connection import Connection
    from broker.network.listener import Listener
    from broker.network.plaintext import PlaintextTransport
    from broker.network.server import Server
    from protocol.schema import Chunk

    OnConnect = Callable[[Connection], object]


class Clients:
    """The clients of a server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._held: list[HeldTransport] = []
        self._before: dict[Listener, OnConnect | None] = {}

    def cut(self) -> None:
        """Let nothing pass to and from clients until `reconnect`."""
        if self._before:
            return
        for listener in self._server.listeners:
            self._before[listener] = listener.on_connect
            listener.on_connect = partial(self._on_connect, listener)
        for connection in list(self._server.connections):
            self._held.append(HeldTransport(connection))

    def reconnect(self) -> None:
        """Let everything pass again, first what has waited."""
        for listener, before in self._before.items():
            listener.on_connect = before
        self._before.clear()
        held, self._held = self._held, []
        for each in held:
            each.end()

    def _on_connect(self, listener: Listener, connection: Connection) -> None:
        before = self._before[listener]
        if before is not None:
            before(connection)
        self._held.append(HeldTransport(connection))


class HeldTransport:
    """Replaces the transport of a connection until `end`, and passes nothing on."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._transport = cast("PlaintextTransport", connection.transport)
        self._reads = self._transport.is_reading
        self._closes = False
        self._chunks: list[Chunk] = []
        connection.transport = self
        self._transport.pause_reading()

    def end(self) -> None:
        """Give the connection its transport back, and pass on what has waited."""
        connection, transport = self._connection, self._transport
        if connection.transport is not self:  # it has ended meanwhile
            transport.abort()
            return
        connection.transport = transport
        if self._chunks and not transport.send(self._chunks):
            connection.on_sent()
        if self._closes:
            transport.close_when_sent()
        elif self._reads:
            transport.resume_reading()

    @property
    def queued_bytes(self) -> int:
        return self._transport.queued_bytes + sum(map(len, self._chunks))

    @property
    def sendfile_bytes(self) -> int:
        return self._transport.sendfile_bytes

    def send(self, chunks: list[Chunk]) -> int:
        self._chunks += chunks
        return self.queued_bytes

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True

    def close_when_sent(self) -> None:
        self._closes = True

    def abort(self) -> None:
        """End the connection. Its socket stays open until `end`, so that the client does not notice."""
        release(self._chunks)
        self._chunks = []
        self._connection.on_lost()
