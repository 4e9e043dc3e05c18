"""A clock that a test can advance."""

from __future__ import annotations

from runtime.clock import Clock


class AdjustableClock(Clock):
    """The system's clocks plus an offset. Both only move forward."""

    __slots__ = ("_monotonic_ahead_ms", "_wall_ahead_ms")

    def __init__(self) -> None:
        self._wall_ahead_ms = 0
        self._monotonic_ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self._wall_ahead_ms

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self._monotonic_ahead_ms

    def move_on(self, milliseconds: int, *, deadlines: bool = True) -> None:
        """Advance the clock. Without `deadlines` only the time of day moves, and timeouts do not come closer.

        The caller then notifies owners of timers (`Timers.clock_moved`). Raises ValueError for a negative time.
        """
        if milliseconds < 0:
            raise ValueError("time moves on, not back")
        self._wall_ahead_ms += milliseconds
        if deadlines:
            self._monotonic_ahead_ms += milliseconds
