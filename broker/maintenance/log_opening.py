"""Opening what a start has left for later: as soon as clients are let in, log after log, so that soon none waits.

Who asks for a log that waits has it opened at once (broker/replicas/partitions.py), so many in a turn of the loop;
the others
are opened here, a few in a turn, with a pause between turns that leaves half of the time to clients. What could not be
opened for lack of descriptors is tried again.
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

#: The loop is held for so long at most, and for one log more, and then serves others for as long as that took: a log on
#: a cold disk, or one that has to be mended, takes longer than others.
_TURN_S = 0.001
_SHORTEST_PAUSE_MS, _LONGEST_PAUSE_MS = 1, 500
#: So long the loop is held at most for those who ask, and for one log more. A log takes 0.3 ms, some as long as 10 ms.
#: Who asks for more is told to ask again (`LogWaits`), which clients do by themselves, and finds them open then.
_ASKED_S = 0.02
#: And so many logs, however fast: each is some work for the turns that follow.
_ASKED_A_TURN = 256
#: Until what could not be opened is tried again.
_AGAIN_MS = 5_000


class LogOpening:
    """Its methods belong to the event loop's thread."""

    def __init__(self, logs: LogManager, loop: asyncio.AbstractEventLoop, timers: Timers) -> None:
        self._logs = logs
        self._loop = loop
        self._timers = timers
        self._timer: Timer | None = None
        #: Whether there are clients, who are not to wait.
        self._serving = False
        #: How many logs those who asked have opened in this turn of the loop, and when it is over for them.
        self._asked = 0
        self._asked_until = 0.0
        #: Called when some were opened here.
        self.on_opened: Callable[[], object] = lambda: None

    def start(self) -> None:
        """Open all that waits. From here on those who ask have but so many opened in a turn of the loop."""
        self._serving = True
        if self._logs.unopened:
            self._open_all()

    def stop(self) -> None:
        """What waits is left as it is."""
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
        """Whether somebody who asks for a log may have it opened in this turn of the loop: the first always, more until
        the time is over. To be called once a log.
        """
        if not self._serving:
            return True
        if not self._asked:
            self._loop.call_soon(self._begin_turn)
            self._asked_until = time.perf_counter() + _ASKED_S
        elif self._asked >= _ASKED_A_TURN or time.perf_counter() >= self._asked_until:
            return False
        self._asked += 1
        return True

    def _begin_turn(self) -> None:
        self._asked = 0
