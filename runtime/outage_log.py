"""Log lines for requests that fail again and again: few while they fail, and one when they succeed again."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

#: Between two lines of one outage. An operator notices that it lasts, and the log stays readable.
REPEAT_MS = 30_000
#: Short outages in a row, such as those of a rolling restart, have a line each up to this number in `REPEAT_MS`.
_MOST_LINES = 3


class OutageLog:
    """An outage begins with the first failure, and ends when the requests of no source fail any more.

    The log gets a warning when an outage begins, one each `REPEAT_MS` while it lasts, and a line when it is over. An
    outage that begins after `_MOST_LINES` warnings in `REPEAT_MS` has none until that time has passed.

    Args:
        subject: the requests, as the first words of a line: "Fetches from leader 2".
        monotonic_ms: the monotonic clock.
    """

    __slots__ = ("_began_ms", "_failing", "_failures", "_lines", "_log", "_monotonic_ms", "_subject")

    def __init__(self, log: logging.Logger, subject: str, monotonic_ms: Callable[[], int]) -> None:
        self._log = log
        self._subject = subject
        self._monotonic_ms = monotonic_ms
        self._failing: set[str] = set()
        self._failures = 0
        self._began_ms = 0
        #: When the last warnings were logged.
        self._lines: deque[int] = deque(maxlen=_MOST_LINES)

    @property
    def lasts(self) -> bool:
        """Return whether requests fail. Callers on a hot path call `worked` only then."""
        return bool(self._failing)

    def failed(self, reason: object, advice: str = "", source: str = "") -> None:
        """A request failed.

        Args:
            advice: what an operator can check, as a sentence without a full stop.
            source: tells apart the parts that share this outage and send requests on their own.
        """
        now_ms = self._monotonic_ms()
        if not self._failing:
            self._began_ms, self._failures = now_ms, 0
        self._failing.add(source)
        self._failures += 1
        if not self._is_due(now_ms):
            return
        self._lines.append(now_ms)
        since = "fail"
        if self._failures > 1:
            since = f"have failed for {_seconds(now_ms - self._began_ms)} ({self._failures} failures)"
        remedy = f". {advice}" if advice else ""
        self._log.warning("%s %s: %s. They are retried%s", self._subject, since, reason, remedy)

    def worked(self, source: str = "") -> None:
        """A request of this source succeeded."""
        if source not in self._failing:
            return
        self._failing.discard(source)
        if not self._failing and self._lines and self._lines[-1] >= self._began_ms:
            lasted = _seconds(self._monotonic_ms() - self._began_ms)
            self._log.info("%s succeed again after %s", self._subject, lasted)

    def _is_due(self, now_ms: int) -> bool:
        """Return whether this failure gets a line."""
        lines = self._lines
        if self._failures > 1 and lines and lines[-1] >= self._began_ms:
            return now_ms - lines[-1] >= REPEAT_MS
        return len(lines) < _MOST_LINES or now_ms - lines[0] >= REPEAT_MS


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.1f} s"
