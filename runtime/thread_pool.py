"""A pool of threads (num.io.threads) for blocking calls; results are resolved on the loop.

For calls that block in the system or in native code that releases the GIL: cold reads, fsync, compression, password
hashing. Python code that computes would hold the GIL and so block the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from runtime.deferred import Deferred

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class ThreadPool:
    """The pool. `queued_count` is the number of submitted calls that are not done."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threads: int,
        on_queued: Callable[[int], None] = lambda change: None,
        *,
        name: str = "offload",
    ) -> None:
        """Create a pool.

        Args:
            on_queued: called with +1 and -1 as calls are submitted and done, on the loop's thread, for back-pressure.
            name: the prefix of the threads' names.
        """
        self._loop = loop
        self._on_queued = on_queued
        self._name = name
        self._pool = self._new_pool(threads)
        self.queued_count = 0

    def __call__(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
        """Run `function` in the pool.

        If the Deferred is cancelled, the function still runs, but its result is dropped.
        """
        deferred: Deferred[T] = Deferred()
        self.queued_count += 1
        self._on_queued(1)

        def run() -> None:
            settle: Callable[[], None]
            try:
                settle = partial(self._done, deferred.resolve, function(*args, **kwargs))
            except BaseException as error:
                settle = partial(self._done, deferred.fail, error)
            try:
                self._loop.call_soon_threadsafe(settle)
            except RuntimeError:
                log.debug("The loop was closed before a call of the pool was done")

        self._pool.submit(run)
        return deferred

    def _done(self, settle: Callable[[T], None], outcome: T) -> None:
        self.queued_count -= 1
        self._on_queued(-1)
        settle(outcome)

    def resize(self, threads: int) -> None:
        """Use this number of threads from now on. Submitted calls are still done."""
        before, self._pool = self._pool, self._new_pool(threads)
        before.shutdown(wait=False)

    def _new_pool(self, threads: int) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(threads, thread_name_prefix=self._name)

    def close(self) -> None:
        """Finish the submitted calls, and accept no more."""
        self._pool.shutdown(wait=True)
