"""Listeners: the sockets that clients connect to.

`bind` binds the ports at the very start, so that a taken port stops the start before any file is touched. `listen`
accepts clients once everything else has started.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.network.connection_limits import CreationRate
from broker.network.plaintext import DisconnectWatcher, PlaintextTransport
from config.listeners import is_wildcard

if TYPE_CHECKING:
    from broker.network.connection import Connection

    Connect = Callable[[asyncio.AbstractEventLoop, socket.socket, Connection, DisconnectWatcher], PlaintextTransport]

log = logging.getLogger(__name__)

_SocketAddress = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]

# Connections accepted in one turn: a burst of thousands must not delay the clients that are being served.
_ACCEPTS_PER_TURN = 16
# The delay after a failed accept (no file descriptors, no memory). The end of a connection makes it shorter.
_RETRY_S = 0.5
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class CannotBind(Exception):
    """A listener's address is unavailable."""


def bind(host: str | None, port: int, receive_buffer_bytes: int) -> list[socket.socket]:
    """Return sockets bound to an address, not listening yet.

    As Java's, a socket of all interfaces serves IPv6 and IPv4, also if the host is 0.0.0.0 or ::, and a name stands for
    its first address, IPv4 before IPv6.

    Args:
        host: a name or address, with the zone of a link-local one (fe80::1%eth0). None for all interfaces.
        port: 0 chooses a free one.
        receive_buffer_bytes: SO_RCVBUF of accepted connections; -1 for the system's default.

    Raises CannotBind.
    """
    where = f"{host_in_address(host) if host else '*'}:{port}"
    try:
        found = _addresses(host, port)
    except OSError as error:
        raise CannotBind(f"{where}: {error.strerror or error}") from None
    except UnicodeError:
        raise CannotBind(f"{where}: not a valid name") from None
    failure: OSError | None = None
    for family, address in found:
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            if receive_buffer_bytes != -1:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            sock.bind(address)
        except OSError as error:
            sock.close()
            if error.errno == errno.EADDRINUSE and port:
                raise CannotBind(f"{where}: the port is in use") from None
            failure = error  # IPv6 is off: all interfaces are those of IPv4
            continue
        return [sock]
    raise CannotBind(f"{where}: {failure.strerror if failure else 'no address'}")


def _addresses(host: str | None, port: int) -> list[tuple[socket.AddressFamily, _SocketAddress]]:
    """Return the addresses to try, until one can be bound."""
    if host is None or is_wildcard(host):
        either: list[tuple[socket.AddressFamily, _SocketAddress]] = []
        if socket.has_dualstack_ipv6():
            either.append((socket.AF_INET6, ("::", port)))
        return [*either, (socket.AF_INET, ("0.0.0.0", port))]
    plain, percent, zone = host.partition("%")
    if percent and not zone.isdecimal():  # the system's resolver rejects the name of an interface in ::1%lo
        host = f"{plain}%{socket.if_nametoindex(zone)}"
    elif index := _zone_of(host):
        host = f"{host}%{index}"
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    return [(family, address)]


def _zone_of(host: str) -> int:
    """Return the index of the interface that has a link-local address without a zone; 0 for other addresses."""
    try:
        address = socket.inet_pton(socket.AF_INET6, host)
        with open("/proc/net/if_inet6", encoding="ascii") as interfaces:
            found = [line.split() for line in interfaces]
    except OSError:
        return 0
    is_link_local = address[0] == 0xFE and address[1] & 0xC0 == 0x80
    return next((int(index, 16) for digits, index, *_ in found if is_link_local and digits == address.hex()), 0)


def host_in_address(host: str) -> str:
    """Return the host as it is written before a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def bound_address(sock: socket.socket) -> tuple[str, int]:
    """Return host and port of a bound socket. A link-local address has its zone, without which it is no address."""
    host, port, *rest = sock.getsockname()
    return (f"{host}%{socket.if_indextoname(rest[1])}" if rest and rest[1] else host), port


class Listener:
    """A named listener. It accepts connections, no faster than all of `rates` allow."""

    def __init__(
        self,
        name: str,
        security_protocol: str,
        sockets: list[socket.socket],
        rates: Sequence[CreationRate],
    ) -> None:
        self.name = name
        self.security_protocol = security_protocol
        self.rates = rates
        self.connect: Connect = PlaintextTransport  # makes the transport of a new connection
        self.on_connect: Callable[[Connection], object] | None = None  # called first with each new connection
        self._sockets = sockets
        self._loop: asyncio.AbstractEventLoop | None = None
        self._accepted: Callable[[Listener, socket.socket], None] | None = None
        self._is_full: Callable[[Listener], bool] = lambda _: False
        self._paused = False
        self._retry: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        """The port that it is bound to, also if 0 was requested."""
        port: int = self._sockets[0].getsockname()[1]
        return port

    @property
    def handles(self) -> tuple[int, ...]:
        """The descriptors of its sockets, for a process that inherits them."""
        return tuple(sock.fileno() for sock in self._sockets)

    @property
    def addresses(self) -> list[str]:
        """The addresses that it is bound to, for log lines."""
        names = map(bound_address, self._sockets)
        return [f"{host_in_address(host)}:{port}" for host, port in names]

    def listen(
        self,
        loop: asyncio.AbstractEventLoop,
        backlog: int,
        accepted: Callable[[Listener, socket.socket], None],
        is_full: Callable[[Listener], bool],
    ) -> None:
        """Accept clients: call `accepted(listener, socket)` for each. `is_full(listener)` is called before each accept.

        Raises CannotBind if another process has bound the port meanwhile.
        """
        self.queue(backlog)
        self._loop, self._accepted, self._is_full = loop, accepted, is_full
        for sock in self._sockets:
            loop.add_reader(sock.fileno(), self._on_readable, sock)

    def queue(self, backlog: int) -> None:
        """Let clients wait in the listen queue until this process, or one that shares the sockets, accepts them.

        Raises CannotBind as `listen`.
        """
        for sock in self._sockets:
            try:
                sock.listen(backlog)
            except OSError as error:
                raise CannotBind(f"{self.addresses[0]}: {error.strerror}") from None

    def resume(self) -> None:
        """Accept again after a pause, because a connection has ended."""
        if not self._paused or self._loop is None:
            return
        self._paused = False
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        for sock in self._sockets:
            self._loop.add_reader(sock.fileno(), self._on_readable, sock)

    def close(self) -> None:
        """Stop listening."""
        if self._loop is not None:
            self._stop_accepting()
            if self._retry is not None:
                self._retry.cancel()
            self._loop = None
        for sock in self._sockets:
            sock.close()
        self._sockets = []
        self._paused = False

    def _on_readable(self, sock: socket.socket) -> None:
        assert self._accepted is not None
        for _ in range(_ACCEPTS_PER_TURN):
            if self._is_full(self):
                self._pause(None)
                return
            if delay_ms := self._delay_ms():
                self._pause(delay_ms / 1000)
                return
            try:
                accepted, _address = sock.accept()
            except (BlockingIOError, InterruptedError):
                self._give_back()
                return
            except ConnectionError:
                self._give_back()
                continue  # the client disconnected before it was accepted
            except OSError as error:
                if error.errno not in _OUT_OF_RESOURCES:
                    raise
                log.warning("No more connections are accepted for now: %s", error.strerror)
                self._pause(_RETRY_S)
                return
            self._accepted(self, accepted)

    def _delay_ms(self) -> int:
        """Return 0, and count the connection, if the rates allow one now; else how long to wait."""
        for number, rate in enumerate(self.rates):
            if delay_ms := rate.delay_ms():
                for counted in self.rates[:number]:
                    counted.give_back()
                return delay_ms
        return 0

    def _give_back(self) -> None:
        for rate in self.rates:
            rate.give_back()

    def _pause(self, seconds: float | None) -> None:
        """Accept nothing for this long; None: until a connection ends."""
        assert self._loop is not None
        self._paused = True
        self._stop_accepting()
        if seconds is not None:
            self._retry = self._loop.call_later(seconds, self.resume)

    def _stop_accepting(self) -> None:
        assert self._loop is not None
        for sock in self._sockets:
            self._loop.remove_reader(sock.fileno())
