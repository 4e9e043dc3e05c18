"""Plan the next ranges: from the end of the archive to the end of the part of the log that can be archived. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pybroker.archive.errors import LogChanged
from pybroker.source.bounds import TopicPartition
from pybroker.source.ranges import OffsetRange, bounded_ends


class LogEnds(NamedTuple):
    """A partition: its first offset, the end of the part that can be archived now, and the end of its log."""

    topic: str
    partition: int
    earliest: int
    settled: int
    latest: int

    @property
    def name(self) -> str:
        """Return the partition as error texts name it."""
        return f"{self.topic}-{self.partition}"


class LostRange(NamedTuple):
    """Offsets that retention or DeleteRecords deleted before they were archived."""

    topic: str
    partition: int
    start: int
    end: int


class Plan(NamedTuple):
    """The ranges to archive, and the ranges that are lost."""

    ranges: list[OffsetRange]
    lost: list[LostRange]


def wanted_ranges(ends: Iterable[LogEnds], archived: Mapping[TopicPartition, int], *, skip_lost: bool) -> Plan:
    """Return the next range of each partition that has one.

    The first archive of a topic starts at the first offset of each partition; a partition without records gets an empty
    range. For a partition that is added later, all offsets are archived. Errors: LogChanged when a log ends before its
    archive does, and, unless `skip_lost`, when records were deleted before they were archived.
    """
    ranges, lost = [], []
    begun = {topic for topic, _ in archived}
    for each in sorted(ends):
        place = each.topic, each.partition
        start = archived.get(place, 0 if each.topic in begun else each.earliest)
        if each.latest < start:
            raise LogChanged(
                f"{each.name} ends at offset {each.latest}, and is archived up to {start}: was the topic deleted and "
                "created again? Archive it in another folder"
            )
        if each.earliest > start:
            if not skip_lost:
                raise LogChanged(
                    f"{each.name} begins at offset {each.earliest}, and is archived up to {start}: the records between "
                    "were deleted (--on-data-loss skip continues after them)"
                )
            lost.append(LostRange(*place, start, each.earliest))
            start = each.earliest
        if start < each.settled or (start and place not in archived):
            ranges.append(OffsetRange(*place, start, each.settled))
    return Plan(ranges, lost)


def steps(ranges: Iterable[OffsetRange], limit: int) -> Iterator[list[OffsetRange]]:
    """Yield the ranges in steps of about `limit` offsets, all partitions side by side. Each step is one commit.

    The first step has the empty ranges.
    """
    starts = {(each.topic, each.partition): each.start for each in ranges}
    ends = {(each.topic, each.partition): each.end for each in ranges}
    while ends:
        upto = bounded_ends(starts, ends, limit)
        yield [OffsetRange(*place, starts[place], end) for place, end in sorted(upto.items())]
        starts |= upto
        ends = {place: end for place, end in ends.items() if starts[place] < end}
