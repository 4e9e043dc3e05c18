"""The threads in which calls to remote storage block."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from runtime.thread_pool import ThreadPool

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from config import BrokerConfig

_SIZES = {
    "copying": "remote.log.manager.copier.thread.pool.size",
    "deleting": "remote.log.manager.expiration.thread.pool.size",
    "reading": "remote.log.reader.threads",
}


class TierThreads:
    """A pool for each kind of work, so that slow uploads delay no reads. Their sizes are dynamic."""

    def __init__(self, config: BrokerConfig, loop: AbstractEventLoop) -> None:
        self.copying = ThreadPool(loop, config.get_int(_SIZES["copying"]), name="tier-copy")
        self.deleting = ThreadPool(loop, config.get_int(_SIZES["deleting"]), name="tier-delete")
        self.reading = ThreadPool(loop, config.get_int(_SIZES["reading"]), name="tier-read")
        for name, key in _SIZES.items():
            _follow(config, key, getattr(self, name))

    def close(self) -> None:
        """Finish the calls that run, and accept no more."""
        for pool in (self.copying, self.deleting, self.reading):
            pool.close()


async def closed_within(seconds: float, close: Callable[[], None]) -> bool:
    """Call `close` in a thread, and return whether it has ended in time.

    A call to remote storage may hang, for example at a file server that is gone. The end of the process ends it.
    """
    loop = asyncio.get_running_loop()
    closed: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not closed.done():
            closed.set_result(None)

    def run() -> None:
        close()
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(end)

    threading.Thread(target=run, name="tier-close", daemon=True).start()
    done, _ = await asyncio.wait([closed], timeout=seconds)
    return bool(done)


def _follow(config: BrokerConfig, key: str, pool: ThreadPool) -> None:
    config.subscribe(key, lambda changed: pool.resize(changed.get_int(key)))
