"""A clock that a test moves on."""

from __future__ import annotations

from runtime.clock import Clock


class AdjustableClock(Clock):
    """The system's clocks and what was added to them. Both go forward only, as time does."""

    __slots__ = ("_monotonic_ahead_ms", "_wall_ahead_ms")

    def __init__(self) -> None:
        self._wall_ahead_ms = 0
        self._monotonic_ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self._wall_ahead_ms

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self._monotonic_ahead_ms

    def move_on(self, milliseconds: int, *, deadlines: bool = True) -> None:
        """Let so much time have passed. Without `deadlines` it is later in the day, and nobody has waited for it.

        Whoever holds timers is to be told (`Timers.clock_moved`). ValueError for a time that is past.
        """
        if milliseconds < 0:
            raise ValueError("time moves on, not back")
        self._wall_ahead_ms += milliseconds
        if deadlines:
            self._monotonic_ahead_ms += milliseconds
