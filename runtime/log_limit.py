"""A rate limit for log lines that clients can cause."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable


class LimitedLog:
    """Logs warnings of one kind up to a number per second. The next line reports how many were left out."""

    __slots__ = ("_began", "_left_out", "_log", "_monotonic", "_per_second", "_written")

    def __init__(
        self, log: logging.Logger, per_second: int = 10, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._per_second = per_second
        self._monotonic = monotonic
        self._began = float("-inf")
        self._written = 0
        self._left_out = 0

    def warning(self, message: str, *args: object) -> None:
        """Log a warning, or count it."""
        now = self._monotonic()
        if now - self._began >= 1:
            self._began = now
            self._written = 0
        if self._written >= self._per_second:
            self._left_out += 1
            return
        self._written += 1
        if self._left_out:
            message, args = message + " (%d more like this were not logged)", (*args, self._left_out)
            self._left_out = 0
        self._log.warning(message, *args)
