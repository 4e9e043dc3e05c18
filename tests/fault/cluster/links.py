"""The links of a node: a proxy in front of its listener, which can hold back what one of the other nodes sends it.

The client id of its first request names a node. A link that is cut loses nothing: like TCP over a bad
cable it delivers later, unless a node has given its connection up meanwhile.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.support.brokers import HOST
from tests.support.ports import free_port

_PIECE = 1 << 16
#: size, API key, version, correlation id, then the client id with its size
_CLIENT_ID_AT = 12
#: fetchers and other peers; observers of the metadata log; channels to the controller
_NODE = re.compile(rb"(?:broker-|raft-client-)(\d+)\b|(\d+)$")
CLIENTS = -1


class Links:
    """A proxy from `port` to the node's own port, which is `target`.

    `cut` holds back the requests of these nodes, the answers to them, or both; CLIENTS stands for everybody else.
    """

    def __init__(self) -> None:
        self.port, self.target = free_port(), free_port()
        self._no_requests: frozenset[int] = frozenset()
        self._no_answers: frozenset[int] = frozenset()
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections, and stop listening."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)

    def cut(self, nodes: Iterable[int], *, requests: bool = True, answers: bool = True) -> None:
        """Hold back what passes between these nodes and this one, in one direction or in both."""
        held = frozenset(nodes)
        self._loop.call_soon_threadsafe(self._set, held if requests else frozenset(), held if answers else frozenset())

    def heal(self) -> None:
        """Let everything pass, also what was held back."""
        self._loop.call_soon_threadsafe(self._set, frozenset(), frozenset())

    def _set(self, no_requests: frozenset[int], no_answers: frozenset[int]) -> None:
        self._no_requests, self._no_answers = no_requests, no_answers
        self._changed.set()
        self._changed = asyncio.Event()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, HOST, self.port))
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in self._tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        self._loop.close()

    async def _accept(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            node, requests = await asyncio.open_connection(HOST, self.target)
            try:
                first = await client.readexactly(_CLIENT_ID_AT + 2)
                size = max(0, int.from_bytes(first[-2:], signed=True))
                name = await client.readexactly(size)
                source = _node_of(name)
                requests.write(first + name)
                await _until_one_ends(
                    self._pass(source, client, requests, is_request=True),
                    self._pass(source, node, answers, is_request=False),
                )
            finally:
                requests.transport.abort()
        answers.transport.abort()

    async def _pass(
        self, source: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_request: bool
    ) -> None:
        while data := await reader.read(_PIECE):
            while source in (self._no_requests if is_request else self._no_answers):
                await self._changed.wait()
            writer.write(data)
            await writer.drain()


def _node_of(client_id: bytes) -> int:
    found = _NODE.match(client_id)
    return int(found[1] or found[2]) if found else CLIENTS


async def _until_one_ends(*ways: Awaitable[None]) -> None:
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
