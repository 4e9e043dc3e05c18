"""Counts of the work of the tier, by topic, for metrics. Everything is counted on the event loop's thread."""

from __future__ import annotations

from collections import deque

import msgspec

#: The number of latest reads that quantiles are taken of.
_LATEST = 1024


class TopicCounts(msgspec.Struct):
    """The counts of one topic since the start."""

    copy_requests: int = 0
    copy_errors: int = 0
    copied_bytes: int = 0
    delete_requests: int = 0
    delete_errors: int = 0
    fetch_requests: int = 0
    fetch_errors: int = 0
    fetched_bytes: int = 0
    aux_requests: int = 0
    aux_errors: int = 0


class Waits(msgspec.Struct):
    """Waits because of a quota, in ms."""

    count: int = 0
    total_ms: int = 0
    longest_ms: int = 0

    def note(self, delay_ms: int) -> None:
        """Count a wait."""
        self.count += 1
        self.total_ms += delay_ms
        self.longest_ms = max(self.longest_ms, delay_ms)


class Reads:
    """Reads from remote storage: their number, their total time, and the time of each of the latest ones, in ms."""

    def __init__(self) -> None:
        self.count = 0
        self.total_ms = 0
        self.latest_ms: deque[int] = deque(maxlen=_LATEST)

    def note(self, took_ms: int) -> None:
        """Count a read."""
        self.count += 1
        self.total_ms += took_ms
        self.latest_ms.append(took_ms)


class TierCounts:
    """The counts of all topics."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicCounts] = {}
        self.reads = Reads()
        self.copy_throttle = Waits()
        self.fetch_throttle = Waits()

    def of(self, topic: str) -> TopicCounts:
        """Return the counts of a topic."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicCounts()
        return found
