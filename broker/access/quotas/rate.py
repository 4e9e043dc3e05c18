"""Rates with limits, computed as in Apache Kafka, so that throttle times are the same.

Times are of the monotonic clock, in milliseconds.
"""

from __future__ import annotations

from collections import deque


class Rate:
    """A limit for each second, over windows of some seconds (quota.window.num, quota.window.size.seconds).

    `bound` is the limit. It may change at any time; counted values stay.
    """

    __slots__ = ("_samples", "_total", "_window_count", "bound", "window_ms")

    def __init__(self, bound: float, window_count: int, window_ms: int) -> None:
        self.bound = bound
        self._window_count = window_count
        self.window_ms = window_ms
        self._samples: deque[_Sample] = deque()  # oldest first
        self._total = 0.0

    @property
    def largest_single_amount(self) -> float:
        """Return the limit of all windows but one: a larger amount exceeds the quota in any case."""
        return self.bound * (self._window_count - 1) * self.window_ms / 1000

    def is_unused(self, now_ms: int) -> bool:
        """Whether nothing was counted in any window."""
        self._expire(now_ms)
        return self._total <= 0

    def record(self, value: float, now_ms: int) -> int:
        """Count an amount, which may be negative. Returns the milliseconds until the rate is within the limit, or 0."""
        self._expire(now_ms)
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self.window_ms:
            samples.append(_Sample(now_ms))
        samples[-1].add(value, now_ms)
        self._total += value
        return self._wait_ms(now_ms)

    def _expire(self, now_ms: int) -> None:
        samples = self._samples
        while samples and now_ms - samples[0].last_ms >= self._window_count * self.window_ms:
            self._total -= samples.popleft().value
        if not samples:
            self._total = 0.0  # removes rounding errors of fractions

    def _wait_ms(self, now_ms: int) -> int:
        elapsed_ms = self._elapsed_ms(now_ms)
        excess = self._total * 1000 / elapsed_ms - self.bound
        return round(excess / self.bound * elapsed_ms) if excess > 0 else 0

    def _elapsed_ms(self, now_ms: int) -> int:
        """Return the time over which the rate is computed; for a new client, all windows but the current one."""
        elapsed_ms = now_ms - self._samples[0].start_ms
        missing = self._window_count - 1 - elapsed_ms // self.window_ms
        return max(elapsed_ms + max(missing, 0) * self.window_ms, self.window_ms)


class _Sample:
    """The count of one window."""

    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, start_ms: int) -> None:
        self.start_ms = start_ms
        self.last_ms = start_ms
        self.value = 0.0

    def add(self, value: float, now_ms: int) -> None:
        self.value += value
        self.last_ms = now_ms


class TokenBucket:
    """A limit for each second that allows bursts (KIP-599), for large single amounts.

    `bound` tokens are added each second, up to those of all windows. A client may take more and owes them then.
    """

    __slots__ = ("_at_ms", "_tokens", "_window_s", "bound")

    def __init__(self, bound: float, window_count: int, window_ms: int) -> None:
        self.bound = bound
        self._window_s = window_count * window_ms / 1000
        self._tokens = bound * self._window_s
        self._at_ms = 0

    def wait_ms(self, now_ms: int) -> int:
        """Return the milliseconds until no tokens are owed, or 0."""
        self._refill(now_ms)
        return round(-self._tokens * 1000 / self.bound) if self._tokens < 0 else 0

    def record(self, tokens: float, now_ms: int) -> int:
        """Take tokens, even more than there are. Returns the wait in milliseconds."""
        self._refill(now_ms)
        self._tokens -= tokens
        return self.wait_ms(now_ms)

    def _refill(self, now_ms: int) -> None:
        come = (now_ms - self._at_ms) * self.bound / 1000
        self._tokens = min(self._tokens + come, self.bound * self._window_s)
        self._at_ms = now_ms
