"""A proxy as a bad network: it delays bytes, passes them one by one, half closes connections, and cuts them.

It changes no byte and no order. `chance` draws its faults, so that a run can be repeated as far as clients let it.
Brokers behind it must advertise its port.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections import Counter
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.support.brokers import HOST

_PIECE = 1 << 16
#: at most so many bytes of a connection are passed one by one
_DRIBBLE = 2_000
_HELD_S = 0.2
#: how long the other direction of a half-closed connection stays open, at most
_HALF_OPEN_S = 1.0


class FaultProxy:
    """A proxy from `port` of loopback to `target`, which may change. `done` counts the faults.

    A connection that is opened while `faulty` is False has none.
    """

    def __init__(self, target: int, seed: int) -> None:
        self.target = target
        self.faulty = True
        self.done: Counter[str] = Counter()
        self._chance = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener = socket.create_server((HOST, 0), backlog=256)
        self.port = int(self._listener.getsockname()[1])
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
        self._listener.close()

    def cut_all(self) -> None:
        """Cut every open connection, as a cut cable does."""
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, sock=self._listener))
        self._loop.run_forever()
        server.close()
        self._cancel()
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        self._loop.close()

    async def _accept(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with suppress(OSError, asyncio.CancelledError):
            broker, requests = await asyncio.open_connection(HOST, self.target)
            try:
                ways = [
                    asyncio.ensure_future(self._pass(client, requests)),
                    asyncio.ensure_future(self._pass(broker, answers)),
                ]
                try:
                    ended, others = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                    if others and all(not way.cancelled() and way.exception() is None for way in ended):
                        await asyncio.wait(others, timeout=_HALF_OPEN_S)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)
            finally:
                requests.transport.abort()
        answers.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        """Pass bytes in one direction until its end or a half close; ConnectionError cuts both directions."""
        faulty, chance = self.faulty, self._chance
        dribble = _DRIBBLE if faulty and chance.random() < 0.2 else 0
        left = chance.randrange(200, 40_000) if faulty and chance.random() < 0.5 else None
        half = chance.random() < 0.3
        while data := await source.read(_PIECE):
            if left is not None and len(data) >= left:
                data = data[:left]
            if faulty and chance.random() < 0.02:
                self.done["held back"] += 1
                await asyncio.sleep(chance.uniform(0, _HELD_S))
            while dribble and data:
                self.done["single bytes"] += 1
                target.write(data[:1])
                data, dribble = data[1:], dribble - 1
                if left is not None:
                    left -= 1
                await asyncio.sleep(0)
            target.write(data)
            await target.drain()
            if left is not None:
                left -= len(data)
                if left <= 0:
                    self.done["half closed" if half else "cut"] += 1
                    if not half:
                        raise ConnectionResetError
                    break
        if target.can_write_eof():
            target.write_eof()
