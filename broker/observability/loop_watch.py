"""Whether the event loop turns, and how late it is: a beat on the loop, and a thread that listens to it.

What holds the loop up for more than a second is told while it does so, with the stack of the loop's thread: that is who
to ask. The thread wakes up four times a second, and so does the loop: together some 50 us of a second.
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
#: The loop stands still when it is later than this.
STALL_S = 1.0
#: Upper bounds of what is counted together, in seconds; what is beyond the last is counted by itself.
LAG_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
#: Idleness is that of so many beats.
_IDLE_BEATS = 120


class _Handle(Protocol):
    def cancel(self) -> None: ...


class _Loop(Protocol):
    def call_later(self, delay: float, callback: Callable[[], None]) -> _Handle: ...


class LoopWatch:
    """From `start` on until `stop`, both called on the loop. Its figures belong to the loop's thread.

    `lag_counts` are beats by how late they came, one for each of LAG_BOUNDS_S and one for later ones; `stalls` those
    that came later than a second.
    """

    def __init__(self, loop: _Loop, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._loop = loop
        self._monotonic = monotonic
        self._timer: _Handle | None = None
        self._due = 0.0
        self._thread_id = 0
        self._stopped = threading.Event()
        # The watching thread's own: the beat that was waited for when a stall was told, and its last look.
        self._told = 0.0
        self._looked = 0.0
        self._marks: deque[tuple[float, float]] = deque(maxlen=_IDLE_BEATS)
        self.lag_counts = [0] * (len(LAG_BOUNDS_S) + 1)
        self.lag_sum_s = 0.0
        self.stalls = 0

    @property
    def idle(self) -> float:
        """Which part of the last half minute the loop's thread did not compute, 0 to 1."""
        if len(self._marks) < 2:
            return 1.0
        (began, computed_before), (now, computed) = self._marks[0], self._marks[-1]
        return max(0.0, 1 - (computed - computed_before) / (now - began)) if now > began else 1.0

    @property
    def cpu_s(self) -> float:
        """Processor time of the loop's thread, as of the last beat."""
        return self._marks[-1][1] if self._marks else 0.0

    def start(self) -> None:
        """Begin, with a thread that lives until `stop`."""
        self._thread_id = threading.get_ident()
        self._looked = self._monotonic()
        self._schedule()
        threading.Thread(target=self._watch, name="loop-watch", daemon=True).start()

    def stop(self) -> None:
        """Watch no more; the thread ends by itself."""
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
            log.warning("The event loop turns again after %.1f s", late_s)
        self._marks.append((now, time.thread_time()))
        self._schedule()

    # -- the thread --------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._stopped.wait(BEAT_S):
            self.look()

    def look(self) -> None:
        """Tell of a loop that stands still, once, and with its stack."""
        now, due = self._monotonic(), self._due
        was_away = now - self._looked > BEAT_S + STALL_S  # the whole process was: it is no fault of the loop
        self._looked = now
        if now - due > STALL_S and due != self._told and not was_away:
            self._told = due
            frame = sys._current_frames().get(self._thread_id)
            stack = "".join(traceback.format_stack(frame)).rstrip() if frame is not None else "  (no stack)"
            log.warning("The event loop has stood still for %.1f s, at\n%s", now - due, stack)
