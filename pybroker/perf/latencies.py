"""Latencies of a run: average, maximum and percentiles, in constant memory."""

from __future__ import annotations

from collections.abc import Mapping

_PER_MS = 10
#: Buckets of a tenth of a millisecond each. Latencies over a minute count as a minute.
_BUCKETS = 60_000 * _PER_MS


class Latencies:
    """A histogram with buckets of a tenth of a millisecond."""

    def __init__(self) -> None:
        self.count = 0
        self.sum_ms = 0.0
        self.max_ms = 0.0
        self._buckets: dict[int, int] = {}

    def add(self, latency_ms: float) -> None:
        self.count += 1
        self.sum_ms += latency_ms
        if latency_ms > self.max_ms:
            self.max_ms = latency_ms
        bucket = min(int(latency_ms * _PER_MS), _BUCKETS)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    @property
    def average_ms(self) -> float:
        """Return the average latency; 0 when nothing was measured."""
        return self.sum_ms / self.count if self.count else 0.0

    def percentiles_ms(self, *shares: float) -> list[float]:
        """Return the latencies at these shares (0 to 1, ascending) of all measurements."""
        found: list[float] = []
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            while len(found) < len(shares) and seen >= shares[len(found)] * self.count:
                found.append(bucket / _PER_MS)
        return found + [0.0] * (len(shares) - len(found))

    def row(self) -> Mapping[str, float]:
        """Return the figures for --json."""
        median, p95, p99, p999 = self.percentiles_ms(0.5, 0.95, 0.99, 0.999)
        return {
            "avg_latency_ms": round(self.average_ms, 3),
            "max_latency_ms": round(self.max_ms, 3),
            "p50_ms": median,
            "p95_ms": p95,
            "p99_ms": p99,
            "p999_ms": p999,
        }
