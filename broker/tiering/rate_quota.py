"""A quota in bytes a second, measured as Kafka's RLMQuotaManager does (KIP-956)."""

from __future__ import annotations

from collections import deque


class RateQuota:
    """Bytes in the last windows. The caller asks for the delay before each transfer, and notes the transfer as a whole.

    Args:
        bytes_per_second: the quota; may be changed at any time.
        windows: how many windows count, the current one included.
        window_ms: their length.
    """

    def __init__(self, bytes_per_second: int, windows: int, window_ms: int) -> None:
        self.bytes_per_second = bytes_per_second
        self._windows = windows
        self._window_ms = window_ms
        #: The start and the bytes of each window that has any.
        self._samples: deque[tuple[int, int]] = deque()

    def note(self, size_bytes: int, now_ms: int) -> None:
        """Count a transfer."""
        self._forget(now_ms)
        start = now_ms - now_ms % self._window_ms
        if self._samples and self._samples[-1][0] == start:
            size_bytes += self._samples.pop()[1]
        self._samples.append((start, size_bytes))

    def delay_ms(self, now_ms: int) -> int:
        """Return how long the next transfer has to wait; 0 if the rate is within the quota."""
        self._forget(now_ms)
        if not self._samples:
            return 0
        total = sum(size_bytes for _, size_bytes in self._samples)
        elapsed_ms = max(now_ms - self._samples[0][0], self._window_ms)
        if total * 1000 <= self.bytes_per_second * elapsed_ms:
            return 0
        until_slow_enough = -(-total * 1000 // self.bytes_per_second) - elapsed_ms
        until_forgotten = self._samples[0][0] + self._windows * self._window_ms - now_ms
        return max(1, min(until_slow_enough, until_forgotten))

    def _forget(self, now_ms: int) -> None:
        while self._samples and self._samples[0][0] <= now_ms - self._windows * self._window_ms:
            self._samples.popleft()
