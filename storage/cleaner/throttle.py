"""Pacing: work in a worker process that shall not take more than so many bytes a second.

The only clock of this room, and the only sleep: nothing but workers, which have nobody else to wait for, may use it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: Bytes are added up for so long before there is a look at the clock's rate, as in Apache Kafka.
_INTERVAL_S = 0.3


class Throttle:
    """Holds up whoever has read or written more than `bytes_per_second` for the last while."""

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
        """So many bytes were read or written: sleep for as long as they were too many."""
        self._bytes += size_bytes
        now = self._clock()
        if now - self._since < _INTERVAL_S and self._bytes <= self._bytes_per_second * _INTERVAL_S:
            return
        ahead_s = self._bytes / self._bytes_per_second - (now - self._since)
        if ahead_s > 0:
            self._sleep(ahead_s)
        self._since = self._clock()
        self._bytes = 0
