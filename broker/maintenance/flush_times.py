"""How long flushes of logs take, by the threads that make them."""

from __future__ import annotations

import threading
import time
from collections import deque

from broker.observability.metrics.metric import Timings, quantiles
from storage.log.tasks import FlushTask, Task

#: Quantiles are of so many.
_LATEST = 1024


class FlushTimes:
    """Used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest_ms: deque[float] = deque(maxlen=_LATEST)
        self._count = 0
        self._total_ms = 0.0

    def run(self, task: Task) -> None:
        """Run a task, and note what it took if it is a flush."""
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

    def timings(self) -> Timings:
        """All so far, in milliseconds."""
        with self._lock:
            count, total_ms, latest = self._count, self._total_ms, list(self._latest_ms)
        return Timings(count, total_ms, quantiles(latest))
