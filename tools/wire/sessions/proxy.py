"""A proxy between clients and brokers that records all frames.

The proxy replaces addresses of brokers in answers by its own, with one port per broker, so clients stay connected to
the proxy. It holds one frame in memory per connection and direction. Large frames of one direction take at most
LARGE_BYTES in total.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from protocol.error_codes import EncodeError, ProtocolError
from protocol.framing import SIZE_BYTES, frame_size
from protocol.headers import encode_response_header
from tools.wire.sessions.addresses import (
    ADDRESS_APIS,
    WILDCARDS,
    Address,
    addresses_in,
    listening_sockets,
)
from tools.wire.sessions.conversation import Conversation, PendingRequest, Unfollowable
from tools.wire.sessions.keeper import Keeper
from tools.wire.sessions.recording import Kind, SessionEvent

MAX_CONNECTIONS = 1_000
MAX_LISTENERS = 1_000
#: The largest frame: a broker accepts requests of 100 MiB, and answers may be larger.
MAX_FRAME_BYTES = 1 << 28
#: Frames of this size or more are large.
SMALL_BYTES = 1 << 18
LARGE_BYTES = 1 << 28
_CONNECT_S = 10


class FrameMemory:
    """The memory in bytes for large frames of one direction."""

    def __init__(self, size_bytes: int = LARGE_BYTES) -> None:
        self._free = size_bytes
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def taken(self, size_bytes: int) -> AsyncIterator[None]:
        """Reserve `size_bytes`, waiting until they are free."""
        if size_bytes <= SMALL_BYTES:
            yield
            return
        async with self._changed:
            await self._changed.wait_for(lambda: self._free >= size_bytes)
            self._free -= size_bytes
        try:
            yield
        finally:
            self._free += size_bytes
            async with self._changed:
                self._changed.notify_all()


class Proxy:
    """Listens for clients in place of each broker of a cluster.

    Args:
    bootstrap: brokers, tried in order.
    listen: the address of the first listener; those of brokers get free ports on the same host.
    report: called with each line for the user.
    """

    def __init__(
        self, bootstrap: Sequence[Address], listen: Address, keeper: Keeper, report: Callable[[str], None]
    ) -> None:
        self._bootstrap = bootstrap
        self._listen = listen
        self.keeper = keeper
        self.report = report
        self._servers: list[asyncio.Server] = []
        self._ports: dict[Address, int] = {}
        self._sessions: set[asyncio.Task[None]] = set()
        self._number = 0
        self.rooms = (FrameMemory(), FrameMemory())
        self._opening = asyncio.Lock()

    async def start(self) -> list[Address]:
        """Listen, and return the addresses. Raises OSError."""
        return await self._listen_for(self._listen, self._bootstrap, None)

    async def stop(self) -> None:
        """Close all connections and listeners."""
        for server in self._servers:
            server.close()
        for session in self._sessions:
            session.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)

    async def _listen_for(self, wanted: Address, targets: Sequence[Address], node: int | None) -> list[Address]:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._sessions.add(task)
            try:
                await self._serve(reader, writer, targets, node)
            except asyncio.CancelledError:
                pass  # the proxy is stopping; asyncio streams would log the cancellation
            finally:
                self._sessions.discard(task)
                writer.close()

        found = []
        for each in listening_sockets(wanted):
            self._servers.append(await asyncio.start_server(accepted, sock=each))
            host, port, *_ = each.getsockname()
            found.append(Address(host, port))
        return found

    async def _serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        targets: Sequence[Address],
        node: int | None,
    ) -> None:
        if len(self._sessions) > MAX_CONNECTIONS:
            self.report(f"a connection is closed: the limit is {MAX_CONNECTIONS}")
            return
        opened = await self._connect(targets)
        if opened is None:
            return
        self._number += 1
        session = _Session(self._number, self, reader, writer, *opened)
        await self.keeper.keep(SessionEvent(Kind.OPEN, session.number, self.keeper.now_s, node=node))
        by = "proxy"
        try:
            by = await session.run()
        except (Unfollowable, ProtocolError) as error:
            self.report(f"connection {session.number} is closed: {error}")
        finally:
            opened[1].close()
            await self.keeper.keep(SessionEvent(Kind.CLOSE, session.number, self.keeper.now_s, by=by))

    async def _connect(self, targets: Sequence[Address]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for each in targets:
            try:
                async with asyncio.timeout(_CONNECT_S):
                    return await asyncio.open_connection(*each)
            except TimeoutError:
                self.report(f"{each}: no connection within {_CONNECT_S} s")
            except OSError as error:
                self.report(f"{each}: {os.strerror(error.errno) if error.errno else error}")
        return None

    async def advertised(self, broker: Address, node: int, local_host: str) -> Address | None:
        """Listen for a broker and return the proxy's address for it; None if there are too many listeners.

        `local_host`: the address that the client connected to.
        """
        async with self._opening:
            if broker not in self._ports:
                if len(self._ports) >= MAX_LISTENERS:
                    self.report(f"clients get the address {broker} itself: the limit is {MAX_LISTENERS} listeners")
                    return None
                found = await self._listen_for(Address(self._listen.host, 0), [broker], node)
                self._ports[broker] = found[0].port
                self.report(f"node {node} at {broker} is at port {found[0].port}")
        host = local_host if self._listen.host in WILDCARDS else self._listen.host
        return Address(host, self._ports[broker])


class _Session:
    """A client's connection, with its connection to a broker."""

    def __init__(
        self,
        number: int,
        proxy: Proxy,
        client_in: asyncio.StreamReader,
        client_out: asyncio.StreamWriter,
        broker_in: asyncio.StreamReader,
        broker_out: asyncio.StreamWriter,
    ) -> None:
        self.number = number
        self._proxy = proxy
        self._client = (client_in, client_out)
        self._broker = (broker_in, broker_out)
        self._conversation = Conversation()

    async def run(self) -> str:
        """Forward frames until one side closes; return which side. Raises Unfollowable, ProtocolError."""
        requests = asyncio.create_task(self._requests())
        answers = asyncio.create_task(self._answers())
        tasks = {requests, answers}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in tasks:
                each.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks, return_exceptions=True)
        for each in done:
            with suppress(OSError, asyncio.IncompleteReadError):
                each.result()
        return "broker" if answers in done else "client"

    async def _requests(self) -> None:
        reader, writer = self._client[0], self._broker[1]
        while (size := await _size(reader)) is not None:
            async with self._proxy.rooms[0].taken(size):
                body = await reader.readexactly(size)
                pending = self._conversation.note_request(body)
                await self._keep(Kind.REQUEST, body, pending)
                writer.writelines((size.to_bytes(SIZE_BYTES, "big"), body))
                await writer.drain()

    async def _answers(self) -> None:
        reader, writer = self._broker[0], self._client[1]
        while (size := await _size(reader)) is not None:
            async with self._proxy.rooms[1].taken(size):
                body = await reader.readexactly(size)
                pending = self._conversation.note_answer(body)
                await self._keep(Kind.ANSWER, body, pending)
                body = await self._with_our_addresses(pending, body)
                writer.writelines((len(body).to_bytes(SIZE_BYTES, "big"), body))
                await writer.drain()

    async def _keep(self, kind: Kind, body: bytes, pending: PendingRequest) -> None:
        keeper = self._proxy.keeper
        event = SessionEvent(kind, self.number, keeper.now_s, body, api=pending.name, version=pending.version)
        await keeper.keep(event, pending)

    async def _with_our_addresses(self, pending: PendingRequest, body: bytes) -> bytes:
        """Return the answer with addresses of the proxy; unchanged if it has none or is unreadable."""
        if pending.key not in ADDRESS_APIS:
            return body
        try:
            answer = pending.answer(memoryview(body))
        except ProtocolError as error:
            self._proxy.report(
                f"an answer to {pending.name} v{pending.version} is forwarded unchanged,"
                f" as it cannot be decoded: {error}"
            )
            return body
        if answer is None or pending.api is None:
            return body
        value, version = answer
        local_host = self._client[1].get_extra_info("sockname")[0]
        changed = False
        for found in addresses_in(value):
            ours = await self._proxy.advertised(found.address, found.node, local_host)
            if ours is not None:
                found.replace(ours)
                changed = True
        if not changed:
            return body
        head = encode_response_header(pending.api, pending.version, pending.correlation_id)
        try:
            return head + pending.api.response.encode(version, value)
        except EncodeError as error:  # such as a host name that is too long
            self._proxy.report(f"an answer to {pending.name} v{pending.version} is forwarded unchanged: {error}")
            return body


async def _size(reader: asyncio.StreamReader) -> int | None:
    """Read the size of the next frame; None at the end. Raises ProtocolError, IncompleteReadError, OSError."""
    try:
        head = await reader.readexactly(SIZE_BYTES)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    return frame_size(head, 0, SIZE_BYTES, MAX_FRAME_BYTES)
