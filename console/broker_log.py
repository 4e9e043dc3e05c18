"""The last lines of the broker's log, which the console reads from its standard input."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

_MOST_LINES = 2000


class BrokerLog:
    """A buffer of lines in memory, the newest last. Thread-safe."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)

    def follow(self, lines: Iterable[bytes]) -> None:
        """Store lines as they arrive, until the input ends."""
        for line in lines:
            self._lines.append(line.decode(errors="replace").rstrip("\n"))

    def lines(self, word: str, limit: int) -> list[str]:
        """Return the last lines that contain a word (case-insensitive), newest first."""
        wanted = word.casefold()
        found = [each for each in reversed(list(self._lines)) if wanted in each.casefold()]
        return found[:limit]
