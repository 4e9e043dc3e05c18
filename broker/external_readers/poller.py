"""Check repeatedly, in a thread, what other programs write, and pass the results to the loop.

A slow check, for example on a file system that does not respond, delays nothing. The next check begins an interval
after the last one has finished.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from runtime.timers import Timer, Timers

log = logging.getLogger(__name__)

T = TypeVar("T")
InThread = Callable[[Callable[[], None] | None], None]
"""Runs functions in a thread, without waiting for them; None ends the thread."""


class Poller(Generic[T]):
    """Checks repeatedly. Its public methods belong to the event loop's thread.

    Args:
        name: what is checked, for the log and as the thread's name.
        look: does the check; called in the thread, one call at a time.
        take: called on the loop with the result.
    """

    def __init__(
        self,
        name: str,
        look: Callable[[], T],
        take: Callable[[T], None],
        interval_ms: int,
        loop: AbstractEventLoop,
        timers: Timers,
        in_thread: InThread | None = None,
    ) -> None:
        self._name = name
        self._find = look
        self._use = take
        self._interval_ms = interval_ms
        self._loop = loop
        self._timers = timers
        self._in_thread = in_thread or _new_thread(name)
        self._timer: Timer | None = None
        self._stopped = False

    def start(self) -> None:
        """Check now, and then at intervals."""
        self._in_thread(self._look)

    def stop(self) -> None:
        """Stop checking. The result of a check that is still running is dropped."""
        self._stopped = True
        self._in_thread(None)
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """Do one check, in the thread."""
        found: T | None = None
        try:
            found = self._find()
        except Exception:  # checks must go on
            log.exception("Checking %s failed", self._name)
        try:
            self._loop.call_soon_threadsafe(self._take, found)
        except RuntimeError:
            log.debug("A check of %s ended after the loop was closed", self._name)

    def _take(self, found: T | None) -> None:
        if self._stopped:
            return
        if found is not None:
            self._use(found)
        self._timer = self._timers.call_later(self._interval_ms, lambda: self._in_thread(self._look))


def _new_thread(name: str) -> InThread:
    """Start a thread that runs one call after the other. On a busy machine one thread per call would delay the loop."""
    calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def work() -> None:
        while (call := calls.get()) is not None:
            call()

    threading.Thread(target=work, name=name.replace(" ", "-"), daemon=True).start()
    return calls.put
