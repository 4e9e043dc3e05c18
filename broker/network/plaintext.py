"""Plaintext connections: a non-blocking socket on the loop's readers and writers.

uvloop's own transports have no sendfile, and copy what they receive. Here a request costs one recv into the loop's
buffer and one send, and log data is sent by sendfile.
"""

from __future__ import annotations

import asyncio
import logging
import select
import socket

from broker.network.connection import Connection
from broker.network.output_queue import OutputQueue, is_around_slice, joined, release
from broker.network.peer_window import PeerWindow
from protocol.schema import Chunk

log = logging.getLogger(__name__)


class DisconnectWatcher:
    """Notices disconnects of connections whose reading is paused, with an epoll instance for these events alone."""

    __slots__ = ("_epoll", "_loop", "_transports")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._transports: dict[int, PlaintextTransport] = {}
        loop.add_reader(self._epoll.fileno(), self._on_event)

    def watch(self, fd: int, transport: PlaintextTransport) -> None:
        """Notify the transport, once, when its client disconnects."""
        self._epoll.register(fd, select.EPOLLRDHUP)  # EPOLLERR and EPOLLHUP are always reported
        self._transports[fd] = transport

    def unwatch(self, fd: int) -> None:
        """Stop watching a connection."""
        if self._transports.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def close(self) -> None:
        """Stop watching all connections."""
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _on_event(self) -> None:
        for fd, events in self._epoll.poll(0):
            transport = self._transports.get(fd)
            if transport is not None:
                self.unwatch(fd)
                transport.on_hang_up(broken=bool(events & (select.EPOLLERR | select.EPOLLHUP)))


class PlaintextTransport:
    """Transfers the bytes of one plaintext connection."""

    __slots__ = (
        "_closing",
        "_connection",
        "_fd",
        "_hang_ups",
        "_loop",
        "_queue",
        "_reading",
        "_recv_into",
        "_send",
        "_sock",
        "_writing",
        "window",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, connection: Connection, hang_ups: DisconnectWatcher
    ) -> None:
        self._loop = loop
        self._sock: socket.socket | None = sock
        self._fd = sock.fileno()
        self._recv_into = sock.recv_into
        self._send = sock.send
        self._connection = connection
        self._hang_ups = hang_ups
        self._queue = OutputQueue()
        #: Set where clients that receive little at a time get a larger send buffer.
        self.window: PeerWindow | None = None
        self._writing = False
        self._closing = False
        self._reading = True
        connection.transport = self
        loop.add_reader(self._fd, self._on_readable)

    @property
    def is_reading(self) -> bool:
        """Whether it receives."""
        return self._reading

    @property
    def queued_bytes(self) -> int:
        """Bytes that the kernel has not accepted yet."""
        return self._queue.size_bytes

    @property
    def sendfile_bytes(self) -> int:
        """Bytes of files that sendfile sent to the client."""
        return self._queue.sendfile_bytes

    def send(self, chunks: list[Chunk]) -> int:
        """Send what the kernel accepts now, and the rest later; return how many bytes that rest has."""
        queue = self._queue
        if self._closing:
            release(chunks)
            return queue.size_bytes
        if self._writing:
            queue.put(chunks)
            return queue.size_bytes
        data = b""
        try:
            if len(chunks) > 1:
                if is_around_slice(chunks):
                    if not queue.send_around(self._sock, *chunks):  # type: ignore[arg-type]
                        self._want_writable()
                    return queue.size_bytes
                chunks = joined(chunks)
            only = chunks[0]
            if len(chunks) > 1 or type(only) is not bytes:
                queue.put(chunks)
                self._send_queued()
                return queue.size_bytes
            data = only
            sent = self._send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._broken(error)
            return 0
        if sent < len(data):
            queue.put([data[sent:]])
            self._want_writable()
        return queue.size_bytes

    def pause_reading(self) -> None:
        """Stop receiving until `resume_reading`. A disconnect is still noticed."""
        if self._reading and self._sock is not None:
            self._reading = False
            self._loop.remove_reader(self._fd)
            if not self._closing:
                self._hang_ups.watch(self._fd, self)

    def resume_reading(self) -> None:
        """Receive again."""
        if not self._reading and self._sock is not None and not self._closing:
            self._reading = True
            self._hang_ups.unwatch(self._fd)
            self._loop.add_reader(self._fd, self._on_readable)

    def close_when_sent(self) -> None:
        """Stop receiving, and close once all is sent."""
        if self._sock is None:
            return
        self._closing = True
        self._stop_reading()
        if not self._writing:
            self._close()

    def abort(self) -> None:
        """Close now, and drop queued bytes."""
        if self._sock is not None:
            self._close()

    def on_hang_up(self, broken: bool) -> None:
        """Handle a disconnect (`broken`), or the end of what the client sends, while reading is paused."""
        if broken:
            self.abort()
        else:
            self._connection.on_hang_up()

    def _on_readable(self) -> None:
        try:
            received = self._recv_into(self._connection.get_buffer())
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._close()
            return
        if received:
            self._connection.buffer_updated(received)
        else:
            self._stop_reading()
            self._connection.on_eof()

    def _send_queued(self) -> None:
        assert self._sock is not None
        try:
            empty = self._queue.send(self._sock)
        except OSError as error:
            self._broken(error)
            return
        if not empty:
            self._want_writable()
        elif self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)
            if self._closing:
                self._close()
            else:
                self._connection.on_sent()

    def _broken(self, error: OSError) -> None:
        log.debug("Connection %s broke while sending: %s", self._connection, error)
        self._close()

    def _want_writable(self) -> None:
        if not self._writing:
            if self.window is not None:
                self.window.look(self._sock)  # type: ignore[arg-type]  # it is open, as something was to be sent
            self._writing = True
            self._loop.add_writer(self._fd, self._send_queued)

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)
        else:
            self._hang_ups.unwatch(self._fd)

    def _close(self) -> None:
        sock, self._sock = self._sock, None
        if sock is None:
            return
        self._closing = True
        self._stop_reading()
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)
        self._queue.clear()
        self._send = self._recv_into = None  # type: ignore[assignment]
        self._close_socket(sock)
        self._connection.on_lost()

    def _close_socket(self, sock: socket.socket) -> None:
        sock.close()
