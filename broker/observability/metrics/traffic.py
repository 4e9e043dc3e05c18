"""Traffic by topic since the broker's start.

The hot path counts nothing for it: each log knows what was appended since it was opened, from its end offset and size,
and what was fetched. The last counts of closed logs (of deleted topics, or moved to another directory) are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from broker.observability.metrics.metric import Sample
from broker.observability.metrics.metric_table import BYTES_IN, BYTES_OUT, MESSAGES_IN
from storage.log.local_log import LocalLog


class Counts(NamedTuple):
    """Appended records, their bytes, and bytes fetched."""

    records: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def plus(self, other: Counts) -> Counts:
        return Counts(self.records + other.records, self.bytes_in + other.bytes_in, self.bytes_out + other.bytes_out)


#: Logs that are added up at once: some 50 microseconds.
_IN_A_PART = 100


class Traffic:
    """Sums of traffic. Call `note` for each log, then `samples` or `total`; repeat for new figures."""

    def __init__(self) -> None:
        self._logs: dict[LocalLog, None] = {}
        #: The counts of closed logs by topic; and those of deleted topics.
        self._ended: dict[str, Counts] = {}
        self._gone = Counts()

    def note(self, log: LocalLog) -> None:
        """Add an open log."""
        self._logs[log] = None

    def samples(self, topics: Collection[str]) -> Iterator[Sample]:
        """Yield the sums over all topics, and over each of `topics`."""
        self._part_with_closed()
        for topic in self._ended.keys() - set(topics):
            self._gone = self._gone.plus(self._ended.pop(topic))
        by_topic = dict(self._ended)
        for log in self._logs:
            by_topic[log.topic] = by_topic.get(log.topic, Counts()).plus(_of(log))
        total = self._gone
        for topic, counts in by_topic.items():
            total = total.plus(counts)
            yield from _samples((topic,), counts)
        yield from _samples((), total)

    def total(self, logs: Iterable[LocalLog]) -> Iterator[Sample]:
        """Yield partial sums over all topics, which are to be added; `logs` are the open ones."""
        self._logs.update(dict.fromkeys(logs))
        self._part_with_closed()
        remembered = [
            *self._ended.values(),
            self._gone,
        ]  # copied together with the list of logs, so that no log is in both
        rest = iter(list(self._logs))
        yield from _samples((), _sum(remembered))
        while part := list(islice(rest, _IN_A_PART)):
            yield from _samples((), _sum(map(_of, part)))

    def _part_with_closed(self) -> None:
        """Replace closed logs by their last counts."""
        for log in [each for each in self._logs if each.closed]:
            del self._logs[log]
            self._ended[log.topic] = self._ended.get(log.topic, Counts()).plus(_of(log))


def _sum(found: Iterable[Counts]) -> Counts:
    return Counts(*map(sum, zip(*found, strict=True)))


def _of(log: LocalLog) -> Counts:
    return Counts(log.appended_records, log.appended_bytes, log.fetched_bytes)


def _samples(labels: tuple[str, ...], counts: Counts) -> Iterator[Sample]:
    yield MESSAGES_IN, labels, counts.records
    yield BYTES_IN, labels, counts.bytes_in
    yield BYTES_OUT, labels, counts.bytes_out
