"""A proxy between clients and one broker, with a loop and a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.support.brokers import HOST


class Proxy(ABC):
    """A proxy from `port` of loopback to `target`, which may change. `relay` passes the bytes of a connection."""

    def __init__(self, target: int, port: int = 0) -> None:
        self.target = target
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = self._loop.run_until_complete(asyncio.start_server(self._accept, HOST, port, backlog=256))
        self.port = int(self._server.sockets[0].getsockname()[1])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cut all connections, and stop listening."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)

    def cut_all(self) -> None:
        """Cut every open connection, as a cut cable does."""
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._server.close()
        self._cancel()
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        self._loop.close()

    async def _accept(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            broker, requests = await asyncio.open_connection(HOST, self.target)
            try:
                await self.relay(client, requests, broker, answers)
            finally:
                requests.transport.abort()
        answers.transport.abort()

    @abstractmethod
    async def relay(
        self,
        client: asyncio.StreamReader,
        requests: asyncio.StreamWriter,
        broker: asyncio.StreamReader,
        answers: asyncio.StreamWriter,
    ) -> None:
        """Pass the bytes of a connection in both directions, until both ends are closed for good."""


async def until_one_ends(*ways: Coroutine[None, None, None], others_s: float = 0) -> None:
    """Run both directions until one ends; after a proper end the other one has `others_s` left."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        ended, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if others and all(not way.cancelled() and way.exception() is None for way in ended):
            await asyncio.wait(others, timeout=others_s)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
