"""How many requests a store gets at once: halved when it asks for fewer, then one more at a time."""

from __future__ import annotations

#: One burst has several requests that are refused; it halves the limit once.
_HALVED_AT_MOST_EVERY_S = 1.0


class RequestLimit:
    """A number from 1 to `most`. Times are in seconds of one clock that never goes back; not thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._served = 0
        self._halved_s: float | None = None
        self.now = most

    def throttled(self, now_s: float) -> None:
        """Halve the number, unless that has just happened."""
        if self._halved_s is None or now_s - self._halved_s >= _HALVED_AT_MOST_EVERY_S:
            self._halved_s = now_s
            self.now = max(1, self.now // 2)
        self._served = 0

    def served(self) -> None:
        """Note a request that was served. As many of them as the number raise it by one."""
        if self.now == self._most:
            return
        self._served += 1
        if self._served >= self.now:
            self._served = 0
            self.now += 1
