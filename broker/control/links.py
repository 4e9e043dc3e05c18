"""Connections to other nodes that a test can cut, as a network that loses packets does.

Bytes sent over a cut link wait and arrive late, as TCP repeats lost packets. That includes the end of a connection: a
node learns only afterwards that the other one has given it up. New connections are established afterwards, too.

The nodes of a test are on one machine, so the ports that a node listens on identify it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import cast

_NONE: frozenset[int] = frozenset()


class Links:
    """The links from this node to others."""

    def __init__(self) -> None:
        self._no_sending = self._no_receiving = _NONE
        self._changed = asyncio.Event()
        self._links: set[_Link] = set()

    def cut(self, sending_to: Iterable[int], receiving_from: Iterable[int]) -> None:
        """Cut the links to these ports, in one direction or in both. Links to other ports are whole from now on."""
        self._no_sending, self._no_receiving = frozenset(sending_to), frozenset(receiving_from)
        for link in list(self._links):
            self._apply(link)
        self._changed.set()
        self._changed = asyncio.Event()

    async def open_connection(
        self, make_protocol: Callable[[], asyncio.BufferedProtocol], host: str, port: int, **options: object
    ) -> None:
        """Open a connection, as the `create_connection` of the loop. While the link is cut, that does not end."""
        while port in self._no_sending or port in self._no_receiving:
            await self._changed.wait()
        loop = asyncio.get_running_loop()
        await loop.create_connection(  # type: ignore[call-overload]  # `options` are its own
            lambda: _Link(make_protocol(), port, self, loop), host, port, **options
        )

    def _apply(self, link: _Link) -> None:
        link.cut(link.port in self._no_sending, link.port in self._no_receiving)

    def _add(self, link: _Link) -> None:
        self._links.add(link)
        self._apply(link)


class _Link(asyncio.BufferedProtocol):
    """A connection. It stands between a transport of the loop and a protocol, which takes it for the transport."""

    def __init__(
        self, protocol: asyncio.BufferedProtocol, port: int, links: Links, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.port = port
        self._protocol = protocol
        self._links = links
        self._loop = loop
        self._sends = self._receives = True
        self._unsent: list[bytes] = []
        self._is_given_up = False

    def cut(self, no_sending: bool, no_receiving: bool) -> None:
        """Stop what passes in a direction, or let it pass, first what has waited."""
        self._sends, self._receives = not no_sending, not no_receiving
        if self._transport.is_closing():
            return
        if self._receives and not self._is_given_up:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
        if self._sends:
            self._transport.writelines(self._unsent)
            self._unsent.clear()
            if self._is_given_up:
                self._transport.close()

    # -- called by the protocol ----------------------------------------------------------------------------------------

    def get_extra_info(self, name: str) -> object:
        return self._transport.get_extra_info(name)

    def write(self, data: bytes) -> None:
        if self._sends:
            self._transport.write(data)
        else:
            self._unsent.append(data)

    def abort(self) -> None:
        """Close the connection. The other node does not learn of it before the link is whole again."""
        if self._sends:
            self._transport.abort()
        elif not self._is_given_up:
            self._is_given_up = True
            self._transport.pause_reading()
            self._loop.call_soon(self._protocol.connection_lost, None)

    # -- called by the transport ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._protocol.connection_made(cast("asyncio.Transport", self))
        self._links._add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._links._links.discard(self)
        if not self._is_given_up:
            self._protocol.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return cast("memoryview", self._protocol.get_buffer(sizehint))

    def buffer_updated(self, nbytes: int) -> None:
        self._protocol.buffer_updated(nbytes)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
