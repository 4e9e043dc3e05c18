"""The last lines of the broker's log, as they come on the console's standard input."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

_MOST_LINES = 2000


class BrokerLog:
    """Kept in memory, the newest at the end. For all threads."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)

    def follow(self, lines: Iterable[bytes]) -> None:
        """Keep them as they come, until they end."""
        for line in lines:
            self._lines.append(line.decode(errors="replace").rstrip("\n"))

    def lines(self, word: str, most: int) -> list[str]:
        """The last lines that have a word in them, whatever its case, the newest first."""
        wanted = word.casefold()
        found = [each for each in reversed(list(self._lines)) if wanted in each.casefold()]
        return found[:most]
