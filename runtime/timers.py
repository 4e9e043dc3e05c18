"""Timers: one heap of deadlines on one timer of the event loop.

A timer of asyncio costs an allocation and an entry in the loop's heap per call, and a cancelled one stays there until
it is due. Here a timer is a tuple in one heap, and the loop knows only the earliest. Cancelled entries are removed at
the front, or all at once when they are the majority.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Protocol

from runtime.clock import Clock

log = logging.getLogger(__name__)

# With fewer cancelled entries a sweep costs more than it frees.
_SWEEP_AT_LEAST = 256


class _Handle(Protocol):
    def cancel(self) -> None: ...


class _Loop(Protocol):
    def call_later(self, delay: float, callback: Callable[[], None]) -> _Handle: ...


class Timer:
    """A call at a deadline; `cancel` removes it."""

    __slots__ = ("_callback", "_queued", "_timers", "deadline_ms")

    def __init__(self, timers: Timers, deadline_ms: int, callback: Callable[[], None]) -> None:
        self._timers = timers
        self.deadline_ms = deadline_ms
        self._callback: Callable[[], None] | None = callback
        self._queued = True  # in the heap

    @property
    def active(self) -> bool:
        """Whether the call is still due."""
        return self._callback is not None

    def cancel(self) -> None:
        """Remove the call; no effect once it was made."""
        if self._callback is not None:
            self._callback = None
            if self._queued:
                self._timers._one_cancelled()

    def _fire(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class Timers:
    """Calls at deadlines of the monotonic clock, earliest first; equal deadlines in the order of their creation."""

    __slots__ = ("_armed", "_armed_for_ms", "_cancelled", "_clock", "_heap", "_loop", "_sequence")

    def __init__(self, loop: _Loop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = 0
        self._cancelled = 0
        self._armed: _Handle | None = None
        self._armed_for_ms = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback()` in the first later turn in which `clock.monotonic_ms()` has reached `deadline_ms`."""
        timer = Timer(self, deadline_ms, callback)
        self._sequence += 1
        heappush(self._heap, (deadline_ms, self._sequence, timer))
        if self._armed is None or deadline_ms < self._armed_for_ms:
            self._arm()
        return timer

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback()` in this many milliseconds."""
        return self.call_at(self._clock.monotonic_ms() + delay_ms, callback)

    def clock_moved(self) -> None:
        """Make the calls that are due in the next turn, after the clock was moved forward."""
        if self._heap:
            self._arm()

    def _arm(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
        self._armed_for_ms = self._heap[0][0]
        delay_ms = max(self._armed_for_ms - self._clock.monotonic_ms(), 0)
        self._armed = self._loop.call_later(delay_ms / 1000, self._run_due)

    def _run_due(self) -> None:
        self._armed = None
        now_ms = self._clock.monotonic_ms()
        heap = self._heap
        due = []
        # Remove cancelled entries at the front, too, so that the loop wakes up only for a call. Most waits end early.
        while heap and (heap[0][0] <= now_ms or not heap[0][2].active):
            timer = heappop(heap)[2]
            timer._queued = False
            if timer.active:
                due.append(timer)
            else:
                self._cancelled -= 1
        # Remove all due entries first: a callback may cancel others of the same deadline, or set new ones.
        for timer in due:
            try:
                timer._fire()
            except Exception:
                log.exception("A timer's call failed")
        if self._heap and self._armed is None:  # the callbacks may have replaced the heap
            self._arm()

    def _one_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > _SWEEP_AT_LEAST and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].active]
            heapify(self._heap)
            self._cancelled = 0
