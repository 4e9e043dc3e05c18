"""The end of a turn of the event loop, where joined work is done.

A turn is what the loop does between two waits: it serves all sockets that are ready, and then makes the calls that were
added here. So appends of many connections wake a parked fetch once, responses are sent one after the other, and receive
buffers are reused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)

# The most connections whose responses wait for the end of the turn: a thousand requests at once make a turn of 10 ms,
# and the first response must not wait for the last request.
_WAITING_SENDS = 128


class Turn:
    """Calls that are postponed to the end of this turn, in the order in which they were added.

    Calls that are added while the calls run still belong to this turn, once. Calls that those add belong to the next
    turn. So two parties that wake each other do not keep the loop from its sockets.
    """

    __slots__ = ("_call_soon", "_calls", "_scheduled", "_sends")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._calls: list[Callable[[], None]] = []
        self._sends: list[Callable[[], None]] = []
        self._scheduled = False

    def send_at_end(self, send: Callable[[], None]) -> None:
        """Call `send()`, which sends a client's responses, by the end of the turn.

        Waking a sleeping process on another core is the most expensive part of a send. The first of many consecutive
        sends wakes it, and the others find it awake. If a request is served in between, it has fallen asleep again.
        """
        sends = self._sends
        sends.append(send)
        if len(sends) >= _WAITING_SENDS:
            self.send_now()
        elif not self._scheduled:
            self._scheduled = True
            self._call_soon(self._run)

    def send_now(self) -> None:
        """Send the responses that wait for the end of the turn, before work that may take long."""
        sends, self._sends = self._sends, []
        for send in sends:
            try:
                send()
            except Exception:
                log.exception("Responses could not be sent")

    def at_end(self, callback: Callable[[], None]) -> None:
        """Call `callback()` when all sockets that are ready now have been served."""
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
        if self._sends:  # the calls have served requests, too
            self.send_now()
        if self._calls or self._sends:
            self._call_soon(self._run)
        else:
            self._scheduled = False
