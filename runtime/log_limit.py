"""A rate limit for log lines that others can cause: clients, or another node that fails again and again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable


class LimitedLog:
    """Logs warnings of one kind, up to `lines` in `seconds`. The next line reports how many were left out."""

    __slots__ = ("_began", "_left_out", "_lines", "_log", "_monotonic", "_seconds", "_written")

    def __init__(
        self,
        log: logging.Logger,
        lines: int = 10,
        seconds: float = 1,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._lines = lines
        self._seconds = seconds
        self._monotonic = monotonic
        self._began = float("-inf")
        self._written = 0
        self._left_out = 0

    def warning(self, message: str, *args: object) -> None:
        """Log a warning, or count it."""
        now = self._monotonic()
        if now - self._began >= self._seconds:
            self._began = now
            self._written = 0
        if self._written >= self._lines:
            self._left_out += 1
            return
        self._written += 1
        if self._left_out:
            message, args = message + " (%d more like this were not logged)", (*args, self._left_out)
            self._left_out = 0
        self._log.warning(message, *args)
