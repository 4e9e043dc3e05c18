"""The end of a turn of the event loop: where work that gains by being joined is done.

A turn is what the loop does between two waits: all sockets found ready are served, and then what was put here.
Appends of many connections wake a parked fetch once, answers of one connection leave in one send, and receive buffers
are used anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)


class Turn:
    """Calls put off to the end of this turn, in the order they were put.

    What a call puts here while they run still belongs to this turn, once; what those put belongs to the next, so that
    two parties that wake each other do not keep the loop from its sockets.
    """

    __slots__ = ("_call_soon", "_calls", "_scheduled")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._calls: list[Callable[[], None]] = []
        self._scheduled = False

    def at_end(self, callback: Callable[[], None]) -> None:
        """Call `callback()` when all that is ready now has been served."""
        self._calls.append(callback)
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._run)

    def _run(self) -> None:
        for _ in range(2):
            calls, self._calls = self._calls, []
            for callback in calls:
                try:
                    callback()
                except Exception:
                    log.exception("A call at the end of a turn failed")
        if self._calls:
            self._call_soon(self._run)
        else:
            self._scheduled = False
