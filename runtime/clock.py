"""The two clocks of the broker.

Timestamps in records, files and responses come from the wall clock. Timers, sessions and deadlines use the monotonic
clock, so that a change of the wall clock affects timestamps only. Code that needs the time gets a `Clock` as an
argument; tests pass their own.
"""

from __future__ import annotations

import time


class Clock:
    """The system's clocks, in whole milliseconds."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Return the milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return the milliseconds since a fixed moment.

        They never go backwards. Every `deadline_ms` is on this scale.
        """
        return time.monotonic_ns() // 1_000_000
