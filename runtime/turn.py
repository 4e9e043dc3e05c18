"""The end of a turn of the event loop: where work that gains by being joined is done.

A turn is what the loop does between two waits: all sockets found ready are served, and then what was put here.
Appends of many connections wake a parked fetch once, answers leave one after the other, and receive buffers are used
anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)

# Connections whose answers wait for the end of the turn, at most: a thousand requests that come at once are a turn of
# 10 ms, and the first of them is not to wait for the last.
_WAITING_SENDS = 128


class Turn:
    """Calls put off to the end of this turn, in the order they were put.

    What a call puts here while they run still belongs to this turn, once; what those put belongs to the next, so that
    two parties that wake each other do not keep the loop from its sockets.
    """

    __slots__ = ("_call_soon", "_calls", "_scheduled", "_sends")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._calls: list[Callable[[], None]] = []
        self._sends: list[Callable[[], None]] = []
        self._scheduled = False

    def send_at_end(self, send: Callable[[], None]) -> None:
        """Call `send()`, which gives a client its answers, with those of other clients, by the end of the turn.

        Who waits sleeps, and waking another core is the dearest part of a send. Of many sends in a row the first one
        wakes it, and the others find it awake; with a request served in between it has fallen asleep again.
        """
        sends = self._sends
        sends.append(send)
        if len(sends) >= _WAITING_SENDS:
            self.send_now()
        elif not self._scheduled:
            self._scheduled = True
            self._call_soon(self._run)

    def send_now(self) -> None:
        """Send what waits for the end of the turn: before what may take long."""
        sends, self._sends = self._sends, []
        for send in sends:
            try:
                send()
            except Exception:
                log.exception("Answers could not be sent")

    def at_end(self, callback: Callable[[], None]) -> None:
        """Call `callback()` when all that is ready now has been served."""
        self._calls.append(callback)
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._run)

    def _run(self) -> None:
        if self._sends:
            self.send_now()
        for _ in range(2):
            calls, self._calls = self._calls, []
            for callback in calls:
                try:
                    callback()
                except Exception:
                    log.exception("A call at the end of a turn failed")
        if self._sends:  # of requests that these calls have served
            self.send_now()
        if self._calls or self._sends:
            self._call_soon(self._run)
        else:
            self._scheduled = False
