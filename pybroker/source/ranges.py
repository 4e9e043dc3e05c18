"""Ranges of offsets of one partition: split them among tasks, and bound them for a micro-batch. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from pybroker.source.bounds import TopicPartition


class OffsetRange(NamedTuple):
    """Offsets from `start` (included) to `end` (excluded)."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Return the number of offsets, which is the most records that the range can have."""
        return max(0, self.end - self.start)


def split_ranges(
    ranges: Sequence[OffsetRange], *, at_least: int | None = None, most_records: int | None = None
) -> list[OffsetRange]:
    """Split ranges into parts of at most `most_records`, and into at least `at_least` parts; split the largest most."""
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
    """Return where a micro-batch of about `limit` offsets ends: each partition gets its share, at least one offset."""
    sizes = {place: max(0, end - starts[place]) for place, end in ends.items()}
    total = sum(sizes.values())
    if total <= limit:
        return dict(ends)
    return {
        place: starts[place] + min(size, max(1, size * limit // total)) if size else ends[place]
        for place, size in sizes.items()
    }
