"""The network's server: listeners, their connections, and what all of them share.

One event loop owns all of it. Limits that may change at run time are attributes; `broker.network.settings` sets them
from the configuration.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from broker.network.connection import Connection
from broker.network.connection_limits import ConnectionLimits
from broker.network.listener import Listener
from broker.network.peer_window import PeerWindow
from broker.network.plaintext import DisconnectWatcher
from broker.network.receive_buffer import ReceiveBuffer
from broker.network.request_memory import RequestMemory
from broker.requests.dispatcher import Dispatcher
from runtime.clock import Clock
from runtime.log_limit import LimitedLog
from runtime.turn import Turn

log = logging.getLogger(__name__)

# The number of checks in the idle time: a connection is closed at most this fraction of it late.
_IDLE_SWEEPS = 8


class AddressQuotas(Protocol):
    """Quotas of client addresses on new connections."""

    def wait_ms(self, host: str) -> int:
        """Count a connection of an address; return for how long to turn it away."""


class Server:
    """The connections of all listeners, from `open` to `close`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, turn: Turn, dispatcher: Dispatcher) -> None:
        self._loop = loop
        self._clock = clock
        self.turn = turn
        self.dispatcher = dispatcher
        dispatcher.before_handler = turn.send_now
        self.call_soon: Callable[[Callable[[], None]], object] = loop.call_soon
        self.call_later: Callable[[float, Callable[[], None]], asyncio.TimerHandle] = loop.call_later
        self.receive_buffer = ReceiveBuffer(turn)
        self.memory = RequestMemory(turn, loop.call_later)
        self.closing_log = LimitedLog(log)
        self.limits = ConnectionLimits()
        self.connection_quotas: AddressQuotas | None = None  # while any address has one
        self.max_request_bytes = 100 * 1024 * 1024  # socket.request.max.bytes
        self.max_idle_ms = 600_000  # connections.max.idle.ms; below 0 never
        self.max_queued_requests = 500  # queued.max.requests
        self.send_buffer_bytes = -1  # socket.send.buffer.bytes
        #: Whether connections of clients that receive little at a time get a larger send buffer.
        self.widens_send_buffers = False
        self.backlog = 1024  # socket.listen.backlog.size
        self._listeners: list[Listener] = []
        self._connections: dict[Connection, None] = {}
        self._turned_away: dict[socket.socket, asyncio.TimerHandle] = {}  # refused, but not closed yet
        self._hang_ups: DisconnectWatcher | None = None
        #: The number of ended connections, and the bytes that they sent by sendfile.
        self.ended_count = 0
        self._ended_sendfile_bytes = 0
        self._queued_requests = 0
        self._saturated = False
        self._shutting_down = False
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def connections(self) -> Collection[Connection]:
        """The open connections."""
        return self._connections.keys()

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The open listeners."""
        return tuple(self._listeners)

    def port(self, listener_name: str) -> int | None:
        """Return the port that a listener is bound to; None without a listener of that name."""
        return next((each.port for each in self._listeners if each.name == listener_name), None)

    @property
    def sendfile_bytes(self) -> int:
        """The bytes sent from files to clients by sendfile."""
        return self._ended_sendfile_bytes + sum(each.transport.sendfile_bytes for each in self._connections)

    @property
    def held_bytes(self) -> int:
        """The bytes of requests that are incomplete or cannot be served yet."""
        return self.memory.held_bytes + self.memory.queued_bytes

    @property
    def queued_requests(self) -> int:
        """The number of requests that wait for a worker: a thread, or a process."""
        return self._queued_requests

    # -- life ----------------------------------------------------------------------------------------------------------

    def open(self, listeners: Iterable[Listener]) -> None:
        """Accept clients. Raises CannotBind."""
        self._listeners = list(listeners)
        self._hang_ups = DisconnectWatcher(self._loop)
        for listener in self._listeners:
            listener.listen(self._loop, self.backlog, self._accepted, self._is_full)
        self.schedule_idle_sweep()

    def stop_accepting(self) -> None:
        """Close the listeners; connections stay open."""
        for listener in self._listeners:
            listener.close()

    def stop_receiving(self) -> None:
        """Receive no more requests; started ones are still answered."""
        self._set_saturated(True)
        self._shutting_down = True

    def close(self) -> None:
        """Close all connections and listeners at once."""
        self.stop_accepting()
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for connection in list(self._connections):
            connection.transport.abort()
        self.memory.close()
        for sock, timer in self._turned_away.items():
            timer.cancel()
            sock.close()
        self._turned_away.clear()
        if self._hang_ups is not None:
            self._hang_ups.close()
            self._hang_ups = None

    @property
    def busy(self) -> bool:
        """Whether any request waits, or any answer is still being sent."""
        return any(each.waiting_count or each.transport.queued_bytes for each in self._connections)

    # -- connections ---------------------------------------------------------------------------------------------------

    def forget(self, connection: Connection) -> None:
        """Remove an ended connection."""
        if connection not in self._connections:
            return
        del self._connections[connection]
        self.ended_count += 1
        self._ended_sendfile_bytes += connection.transport.sendfile_bytes
        self.limits.closed(connection.listener_name, connection.client_host)
        log.debug("Connection %s ended", connection)
        for listener in self._listeners:
            listener.resume()

    def _is_full(self, listener: Listener) -> bool:
        if self.limits.out_of_descriptors:
            self.closing_log.warning(
                "New connections wait: the process has reached its limit of open files (ulimit -n)"
            )
        return self.limits.listener_is_full(listener.name)

    def _accepted(self, listener: Listener, sock: socket.socket) -> None:
        try:
            client, local = _plain_address(sock.getpeername()), _own_address(sock)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self.send_buffer_bytes != -1:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_buffer_bytes)
        except OSError:  # already disconnected
            sock.close()
            return
        if self.limits.address_is_full(client[0]):
            self.closing_log.warning("Connection from %s is refused: max.connections.per.ip is reached", client[0])
            sock.close()
            return
        if self.connection_quotas is not None and (wait_ms := self.connection_quotas.wait_ms(client[0])):
            self._turn_away(listener, sock, client[0], wait_ms)
            return
        assert self._hang_ups is not None
        connection = Connection(self, listener.name, listener.security_protocol, client, local)
        connection.idle_since_ms = self._clock.monotonic_ms()
        try:
            transport = listener.connect(self._loop, sock, connection, self._hang_ups)
        except OSError:
            sock.close()
            return
        if self.widens_send_buffers:
            transport.window = PeerWindow()
        if listener.on_connect is not None:
            listener.on_connect(connection)
        self._connections[connection] = None
        self.limits.opened(listener.name, client[0])
        if self._saturated:
            connection.set_saturated(True)
        log.debug("Connection %s", connection)
        if self.limits.exceeded:
            self._close_least_active()

    def _turn_away(self, listener: Listener, sock: socket.socket, host: str, wait_ms: int) -> None:
        """Refuse a connection over its address's quota: close it only when the client may connect again."""
        self.closing_log.warning(
            "Connection from %s is refused: its address is over its quota of new connections per second", host
        )
        self.limits.opened(listener.name, host)

        def close() -> None:
            sock.close()
            self._turned_away.pop(sock, None)
            self.limits.closed(listener.name, host)
            listener.resume()

        self._turned_away[sock] = self.call_later(wait_ms / 1000, close)

    def _close_least_active(self) -> None:
        """Close the connection of another listener that was idle longest, to make room on the protected one.

        Unauthenticated connections are closed first, even active ones.
        """
        others = (each for each in self._connections if each.listener_name != self.limits.protected_listener)
        oldest = min(others, key=lambda each: (each.is_admitted, each.active, each.idle_since_ms), default=None)
        if oldest is not None:
            self.closing_log.warning("Connection %s is closed: max.connections is exceeded", oldest)
            oldest.transport.abort()

    # -- idle connections ----------------------------------------------------------------------------------------------

    def schedule_idle_sweep(self) -> None:
        """Check for idle connections periodically, if `max_idle_ms` is not negative."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        if self.max_idle_ms >= 0:
            interval_ms = max(self.max_idle_ms / _IDLE_SWEEPS, 10)
            self._sweep = self._loop.call_later(interval_ms / 1000, self._sweep_idle)

    def _sweep_idle(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for connection in list(self._connections):
            # Activity does not extend the time of an unauthenticated client.
            if connection.is_admitted and (connection.active or connection.waiting_count):
                connection.active = False
                connection.idle_since_ms = now_ms
            elif now_ms - connection.idle_since_ms >= self.max_idle_ms:
                log.info("Connection %s is closed: idle for more than connections.max.idle.ms", connection)
                connection.transport.abort()
        self.schedule_idle_sweep()

    # -- back-pressure -------------------------------------------------------------------------------------------------

    def queued(self, more_requests: int) -> None:
        """Count more (or fewer) requests that wait for a worker: a thread, or a process."""
        self._queued_requests += more_requests
        self._review()

    def held(self, more_bytes: int) -> None:
        """Count more (or fewer) bytes of such requests."""
        self.memory.queue(more_bytes)
        self._review()

    def _review(self) -> None:
        """Stop receiving on all connections while too much is queued; resume at half of the limit, to avoid flapping.

        Queued requests complete without the clients' help. `RequestMemory` limits requests that clients must complete.
        """
        if self._shutting_down:
            return
        requests, most_requests = self._queued_requests, self.max_queued_requests
        queued_bytes, most_bytes = self.memory.queued_bytes, self.memory.limit_bytes
        if not self._saturated:
            if requests >= most_requests or 0 < most_bytes < queued_bytes:
                self._set_saturated(True)
        elif requests <= most_requests // 2 and (most_bytes <= 0 or queued_bytes <= most_bytes // 2):
            self._set_saturated(False)

    def _set_saturated(self, saturated: bool) -> None:
        self._saturated = saturated
        for connection in list(self._connections):
            connection.set_saturated(saturated)


def _plain_address(address: tuple[str, int] | tuple[str, int, int, int]) -> tuple[str, int]:
    """Return host and port: IPv4 that came through an IPv6 socket as IPv4.

    A link-local address has its zone, as a number like in Java.
    """
    host, port = address[0], address[1]
    if len(address) == 4 and address[3]:
        return f"{host}%{address[3]}", port
    return (host[7:] if host.startswith("::ffff:") and "." in host else host), port


def _own_address(sock: socket.socket) -> tuple[str, int]:
    """Return host and port to which a client connected, for clients to connect again: with the name of its zone."""
    host, port = _plain_address(sock.getsockname())
    plain, percent, zone = host.partition("%")
    return (f"{plain}%{socket.if_indextoname(int(zone))}" if percent else host), port
