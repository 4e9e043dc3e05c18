"""What other programs write is looked at by a thread again and again, and known on the loop.

The loop takes over what a look has found; one that takes long, as a file system that is away may have it, is waited
for by nobody. The next look begins an interval after the last one was over.
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
"""Has a thread call what it is given, and waits for nothing; None ends the thread."""


class Poller(Generic[T]):
    """Its public methods belong to the event loop's thread.

    Args:
        name: of what is looked at, for the log and for the thread.
        look: finds it; called in the thread, once at a time.
        take: called on the loop with what was found.
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
        """Look, now and again and again."""
        self._in_thread(self._look)

    def stop(self) -> None:
        """Look no more. One look may still be under way, of which nothing comes."""
        self._stopped = True
        self._in_thread(None)
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """In the thread."""
        found: T | None = None
        try:
            found = self._find()
        except Exception:  # else nobody would look any more
            log.exception("A look at %s has failed", self._name)
        try:
            self._loop.call_soon_threadsafe(self._take, found)
        except RuntimeError:
            log.debug("A look at %s was over after the loop had been closed", self._name)

    def _take(self, found: T | None) -> None:
        if self._stopped:
            return
        if found is not None:
            self._use(found)
        self._timer = self._timers.call_later(self._interval_ms, lambda: self._in_thread(self._look))


def _new_thread(name: str) -> InThread:
    """A thread for one call after the other. It lasts: to start one takes the loop as long as the machine is busy."""
    calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def work() -> None:
        while (call := calls.get()) is not None:
            call()

    threading.Thread(target=work, name=name.replace(" ", "-"), daemon=True).start()
    return calls.put
