"""The two clocks of the broker.

Timestamps in records, files and answers come from the wall clock; timers, sessions and deadlines from the monotonic
one, so that a wall clock set backwards changes timestamps only. Everything that needs the time is handed a `Clock`;
tests hand in their own.
"""

from __future__ import annotations

import time


class Clock:
    """The system's clocks, in whole milliseconds."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed moment; never goes backwards. The scale of every `deadline_ms`."""
        return time.monotonic_ns() // 1_000_000
