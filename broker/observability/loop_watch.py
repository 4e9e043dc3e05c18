"""Watch whether the event loop runs, and how late it is: a beat on the loop, and a thread that checks it.

If the loop is blocked for more than a second, the thread logs that at once, with the stack of the loop's thread, which
shows the cause. The thread and the loop wake up four times a second; together this takes some 50 us of a second.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger(__name__)

BEAT_S = 0.25
#: Above this delay the loop counts as blocked.
STALL_S = 1.0
#: Upper bounds of the histogram's buckets, in seconds. There is one more bucket for longer delays.
LAG_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
#: The number of beats over which idleness is measured.
_IDLE_BEATS = 120


class _Handle(Protocol):
    def cancel(self) -> None: ...


class _Loop(Protocol):
    def call_later(self, delay: float, callback: Callable[[], None]) -> _Handle: ...


class LoopWatch:
    """Watches the loop from `start` to `stop`, both called on the loop. Its figures belong to the loop's thread.

    `lag_counts` counts beats by their delay: one count for each of LAG_BOUNDS_S, and one for longer delays. `stalls`
    counts the delays of more than a second.
    """

    def __init__(self, loop: _Loop, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._loop = loop
        self._monotonic = monotonic
        self._timer: _Handle | None = None
        self._due = 0.0
        self._thread_id = 0
        self._stopped = threading.Event()
        # Used by the watching thread alone: the beat that was due at the last logged stall, and the last check.
        self._logged = 0.0
        self._checked = 0.0
        self._marks: deque[tuple[float, float]] = deque(maxlen=_IDLE_BEATS)
        self.lag_counts = [0] * (len(LAG_BOUNDS_S) + 1)
        self.lag_sum_s = 0.0
        self.stalls = 0

    @property
    def idle(self) -> float:
        """The share of the last half minute in which the loop's thread did not compute, 0 to 1."""
        if len(self._marks) < 2:
            return 1.0
        (began, computed_before), (now, computed) = self._marks[0], self._marks[-1]
        return max(0.0, 1 - (computed - computed_before) / (now - began)) if now > began else 1.0

    @property
    def cpu_s(self) -> float:
        """The processor time of the loop's thread, as of the last beat."""
        return self._marks[-1][1] if self._marks else 0.0

    def start(self) -> None:
        """Start, with a thread that lives until `stop`."""
        self._thread_id = threading.get_ident()
        self._checked = self._monotonic()
        self._schedule()
        threading.Thread(target=self._watch, name="loop-watch", daemon=True).start()

    def stop(self) -> None:
        """Stop watching. The thread ends by itself."""
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        self._due = self._monotonic() + BEAT_S
        self._timer = self._loop.call_later(BEAT_S, self._beat)

    def _beat(self) -> None:
        now = self._monotonic()
        late_s = max(0.0, now - self._due)
        self.lag_counts[bisect_left(LAG_BOUNDS_S, late_s)] += 1
        self.lag_sum_s += late_s
        if late_s > STALL_S:
            self.stalls += 1
            log.warning("The event loop runs again after %.1f s", late_s)
        self._marks.append((now, time.thread_time()))
        self._schedule()

    # -- the thread --------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._stopped.wait(BEAT_S):
            self.look()

    def look(self) -> None:
        """Log a blocked loop, once, with its stack."""
        now, due = self._monotonic(), self._due
        was_away = now - self._checked > BEAT_S + STALL_S  # the whole process was suspended, not only the loop
        self._checked = now
        if now - due > STALL_S and due != self._logged and not was_away:
            self._logged = due
            frame = sys._current_frames().get(self._thread_id)
            stack = "".join(traceback.format_stack(frame)).rstrip() if frame is not None else "  (no stack)"
            log.warning("The event loop was blocked for %.1f s, at\n%s", now - due, stack)
