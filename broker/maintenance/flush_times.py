"""Measure how long flushes of logs take, in the threads that do them."""

from __future__ import annotations

import threading
import time
from collections import deque

import msgspec

from storage.log.tasks import FlushTask, Task

#: The number of latest flushes that quantiles are taken of.
_LATEST = 1024


class Measured(msgspec.Struct, frozen=True):
    """The number of flushes, their total time, and the time of each of the latest ones, in milliseconds."""

    count: int
    total_ms: float
    latest_ms: list[float]


class FlushTimes:
    """Collects the times of flushes. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest_ms: deque[float] = deque(maxlen=_LATEST)
        self._count = 0
        self._total_ms = 0.0

    def run(self, task: Task) -> None:
        """Run a task, and record its time if it is a flush."""
        if not isinstance(task, FlushTask):
            task.run()
            return
        began = time.monotonic()
        task.run()
        took_ms = (time.monotonic() - began) * 1000
        with self._lock:
            self._count += 1
            self._total_ms += took_ms
            self._latest_ms.append(took_ms)

    def measured(self) -> Measured:
        """Return the measurements so far."""
        with self._lock:
            return Measured(self._count, self._total_ms, list(self._latest_ms))
