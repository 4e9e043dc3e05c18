"""Ranges of offsets, one partition's each: split among tasks, and bounded for a micro-batch. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from pybroker.source.bounds import TopicPartition


class OffsetRange(NamedTuple):
    """Offsets from `start` on, before `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets; at most so many records."""
        return max(0, self.end - self.start)


def split_ranges(
    ranges: Sequence[OffsetRange], *, at_least: int | None = None, most_records: int | None = None
) -> list[OffsetRange]:
    """The same offsets in ranges of at most `most_records`, and `at_least` of them, larger ones in more parts."""
    ranges = [each for each in ranges if each.size]
    if most_records is not None:
        ranges = [part for each in ranges for part in _parts(each, -(-each.size // most_records))]
    total = sum(each.size for each in ranges)
    if at_least is not None and len(ranges) < at_least:
        ranges = [part for each in ranges for part in _parts(each, -(-each.size * at_least // total))]
    return list(ranges)


def _parts(whole: OffsetRange, count: int) -> list[OffsetRange]:
    count = min(count, whole.size)
    cuts = [whole.start + whole.size * number // count for number in range(count + 1)]
    return [whole._replace(start=start, end=end) for start, end in pairwise(cuts)]


def bounded_ends(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], limit: int
) -> dict[TopicPartition, int]:
    """Where a micro-batch of at most about `limit` offsets ends: each partition has its share, and one at least."""
    sizes = {place: max(0, end - starts[place]) for place, end in ends.items()}
    total = sum(sizes.values())
    if total <= limit:
        return dict(ends)
    return {
        place: starts[place] + min(size, max(1, size * limit // total)) if size else ends[place]
        for place, size in sizes.items()
    }
