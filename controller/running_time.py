"""The time in which this process runs: sessions of brokers end by it."""

from __future__ import annotations

import logging
from collections.abc import Callable

log = logging.getLogger(__name__)

INTERVAL_MS = 1000
"""`note` is to be called this often."""

_STILL_MS = 2 * INTERVAL_MS


class RunningTime:
    """A monotonic clock that leaves out the time in which this process was paused.

    A paused process (SIGSTOP, a suspended machine) finds all sessions ended when it goes on, while the brokers'
    heartbeats wait in its sockets. Apache Kafka's controller would have lost its leadership to another one by then.
    This one has no other: without this clock it would fence every broker.
    """

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        self._monotonic_ms = monotonic_ms
        self._noted_ms = monotonic_ms()
        self._still_ms = 0

    def ms(self) -> int:
        """Return the milliseconds in which the process ran, since a fixed moment."""
        return self._monotonic_ms() - self._still_ms

    def note(self) -> None:
        """Note that the process runs. A call that is late by more than a second shows that it was paused."""
        now_ms = self._monotonic_ms()
        since_ms, self._noted_ms = now_ms - self._noted_ms, now_ms
        if since_ms > _STILL_MS:
            self._still_ms += since_ms - INTERVAL_MS
            paused_ms = since_ms - INTERVAL_MS
            log.warning("The controller was paused for about %d ms. Sessions of brokers are longer by that", paused_ms)
