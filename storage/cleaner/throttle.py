"""Limit the bytes per second that a worker process reads and writes.

It has the only clock and the only sleep of this room. Use it only in worker processes, which may block.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: The interval over which bytes are summed before the rate is checked, as in Apache Kafka.
_INTERVAL_S = 0.3


class Throttle:
    """Makes the caller sleep when it exceeds `bytes_per_second`."""

    def __init__(
        self,
        bytes_per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bytes_per_second = max(bytes_per_second, 1.0)
        self._clock = clock
        self._sleep = sleep
        self._since = clock()
        self._bytes = 0

    def count(self, size_bytes: int) -> None:
        """Count bytes that were read or written, and sleep if they exceed the rate."""
        self._bytes += size_bytes
        now = self._clock()
        if now - self._since < _INTERVAL_S and self._bytes <= self._bytes_per_second * _INTERVAL_S:
            return
        ahead_s = self._bytes / self._bytes_per_second - (now - self._since)
        if ahead_s > 0:
            self._sleep(ahead_s)
        self._since = self._clock()
        self._bytes = 0
