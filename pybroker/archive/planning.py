"""What is archived next: from where the archive ends to where the log's settled part ends. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pybroker.archive.errors import LogChanged
from pybroker.source.bounds import TopicPartition
from pybroker.source.ranges import OffsetRange, bounded_ends


class LogEnds(NamedTuple):
    """A partition: its first offset, the end of what may be archived now, and that of its log."""

    topic: str
    partition: int
    earliest: int
    settled: int
    latest: int

    @property
    def name(self) -> str:
        """As errors name it."""
        return f"{self.topic}-{self.partition}"


class Lost(NamedTuple):
    """Offsets that retention, or DeleteRecords, took before they were archived."""

    topic: str
    partition: int
    start: int
    end: int


class Plan(NamedTuple):
    """What is archived, and what cannot be any more."""

    ranges: list[OffsetRange]
    lost: list[Lost]


def wanted_ranges(ends: Iterable[LogEnds], archived: Mapping[TopicPartition, int], *, skip_lost: bool) -> Plan:
    """Each partition's next range, where there is something in it.

    An archive of a topic begins where its partitions begin at the first time: one that has nothing more by then has an
    empty range there. Of a partition that comes later all offsets are wanted. Errors: LogChanged where a log ends
    before its archive does; where records have gone that were not archived, unless `skip_lost`.
    """
    ranges, lost = [], []
    begun = {topic for topic, _ in archived}
    for each in sorted(ends):
        place = each.topic, each.partition
        start = archived.get(place, 0 if each.topic in begun else each.earliest)
        if each.latest < start:
            raise LogChanged(
                f"{each.name} ends at offset {each.latest}, and is archived up to {start}: is it another topic of that "
                "name? Archive it elsewhere"
            )
        if each.earliest > start:
            if not skip_lost:
                raise LogChanged(
                    f"{each.name} begins at offset {each.earliest}, and is archived up to {start}: the records between "
                    "are not there any more (--on-data-loss skip goes on behind them)"
                )
            lost.append(Lost(*place, start, each.earliest))
            start = each.earliest
        if start < each.settled or (start and place not in archived):
            ranges.append(OffsetRange(*place, start, each.settled))
    return Plan(ranges, lost)


def steps(ranges: Iterable[OffsetRange], most: int) -> Iterator[list[OffsetRange]]:
    """The same ranges in turns of about `most` offsets, all partitions side by side; each turn is committed.

    Empty ranges are in the first.
    """
    starts = {(each.topic, each.partition): each.start for each in ranges}
    ends = {(each.topic, each.partition): each.end for each in ranges}
    while ends:
        upto = bounded_ends(starts, ends, most)
        yield [OffsetRange(*place, starts[place], end) for place, end in sorted(upto.items())]
        starts |= upto
        ends = {place: end for place, end in ends.items() if starts[place] < end}
