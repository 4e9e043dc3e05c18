"""Open the logs that a start has left closed, one after the other, once the broker accepts clients.

A request opens the closed logs that it names at once (broker/replicas/partitions.py), up to a limit in each turn of the
loop. The others are opened here, a few in a turn, with pauses that leave half of the time to clients. A log that could
not be opened for lack of file descriptors is tried again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from storage.checkpoints import TopicPartition
from storage.errors import LogOffline
from storage.log_manager import LogManager

if TYPE_CHECKING:
    from runtime.timers import Timer, Timers

log = logging.getLogger(__name__)

#: How long opening may block the loop in a turn, plus one log. The loop then serves others for as long as that took:
#: a log on a cold disk, or one that needs repair, takes longer than others.
_TURN_S = 0.001
_SHORTEST_PAUSE_MS, _LONGEST_PAUSE_MS = 1, 500
#: How long requests may block the loop by opening logs, plus one log. A log takes 0.3 ms, some as long as 10 ms. Beyond
#: that a request gets `LogQueued`: its client retries, and finds the logs open then.
_ASKED_S = 0.02
#: The most logs that requests open in a turn, however fast: each causes work in later turns.
_REQUESTED_LOGS_PER_TURN = 256
#: Delay before a log that could not be opened is tried again.
_AGAIN_MS = 5_000


class LogOpening:
    """Opens the waiting logs. Its methods belong to the event loop's thread."""

    def __init__(self, logs: LogManager, loop: asyncio.AbstractEventLoop, timers: Timers) -> None:
        self._logs = logs
        self._loop = loop
        self._timers = timers
        self._timer: Timer | None = None
        #: Whether the broker has clients, which should not wait.
        self._serving = False
        #: How many logs requests have opened in this turn of the loop, and when the time for them is over.
        self._asked = 0
        self._asked_until = 0.0
        #: Called when logs were opened here.
        self.on_opened: Callable[[], object] = lambda: None

    def start(self) -> None:
        """Open all waiting logs. From now on the number that requests may open in a turn is limited."""
        self._serving = True
        if self._logs.unopened:
            self._open_all()

    def stop(self) -> None:
        """Stop; the waiting logs stay closed."""
        if self._timer is not None:
            self._timer.cancel()

    def _open_all(self) -> None:
        self._open_some(iter(list(self._logs.unopened)))

    def _open_some(self, keys: Iterator[TopicPartition]) -> None:
        began = time.perf_counter()
        count = len(self._logs.logs)
        is_over = True
        for key in keys:
            with suppress(LogOffline):
                self._logs.open(*key)
            if time.perf_counter() >= began + _TURN_S:
                is_over = False
                break
        if len(self._logs.logs) > count:
            self.on_opened()
        if not is_over:
            took_ms = round((time.perf_counter() - began) * 1000)
            pause_ms = min(max(took_ms, _SHORTEST_PAUSE_MS), _LONGEST_PAUSE_MS)
            self._timer = self._timers.call_later(pause_ms, lambda: self._open_some(keys))
        elif any(each.problem is None for each in self._logs.unopened.values()):
            self._timer = self._timers.call_later(_AGAIN_MS, self._open_all)
        else:
            self._timer = None
            offline = len(self._logs.unopened)
            log.info("All logs are open%s", f" but {offline}, which are offline" if offline else "")

    def may_open(self) -> bool:
        """Return whether a request may open one more log in this turn: the first always, others until the time is over.

        Call it once for each log.
        """
        if not self._serving:
            return True
        if not self._asked:
            self._loop.call_soon(self._begin_turn)
            self._asked_until = time.perf_counter() + _ASKED_S
        elif self._asked >= _REQUESTED_LOGS_PER_TURN or time.perf_counter() >= self._asked_until:
            return False
        self._asked += 1
        return True

    def _begin_turn(self) -> None:
        self._asked = 0
