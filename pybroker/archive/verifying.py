"""Verify an archive, range by range, against its manifest and against the part of the log that still exists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pybroker.archive import parquet
from pybroker.archive.inputs import Input
from pybroker.archive.jobs import NOTHING, NOWHERE, Part, PartSums, part_of, spark_errors, sums_of_parts
from pybroker.archive.manifest import ArchivedRange, merged
from pybroker.archive.planning import LogEnds
from pybroker.archive.store import Archive
from pybroker.source.errors import UnknownPartition
from pybroker.source.ranges import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The log, compared with a range: the same rows, other rows, no rows any more, or not compared.
SAME, DIFFERENT, GONE, NOT_ASKED = "same", "different", "gone", "not asked"


class Checked(NamedTuple):
    """A range, whether its rows are those of the manifest, and how the log compares with it."""

    range: ArchivedRange
    is_whole: bool
    log: str

    @property
    def is_right(self) -> bool:
        """Whether the range is correct."""
        return self.is_whole and self.log != DIFFERENT


@dataclass(frozen=True)
class Verified:
    """The result: each range, and the problems of whole files."""

    ranges: list[Checked] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        """Whether the whole archive is correct."""
        return not self.problems and all(each.is_right for each in self.ranges)


def verify(archive: Archive, session: Callable[[], SparkSession], source: Input | None) -> Verified:
    """Count and sum up all rows of an archive, and, with a `source`, the rows of the log at the same offsets.

    Errors: ArchiveError, SourceError, OSError.
    """
    missing = archive.missing()
    if missing:
        return Verified(problems=[f"{path} is missing" for path in missing])
    problems = [
        f"{path} is not in the manifest: its rows are not part of the archive" for path in archive.unknown_files()
    ]
    problems += archive.table_problems()
    ranges = archive.manifest.ranges
    if not ranges:
        return Verified(problems=problems)
    ends = {} if source is None else _ends(source, archive.manifest.topics())
    parts = [part_of(each, _shared_from(each, ends)) for each in ranges]
    spark = session()
    with spark_errors(), parquet.settings(spark):
        here = sums_of_parts(spark, parquet.read(spark, archive.root, archive.paths()), parts)
        there = {} if source is None else _of_log(spark, source, ranges, parts, ends)
    if NOWHERE in here:
        problems.append(f"{here[NOWHERE].records} rows belong to no range of the manifest")
    checked = [
        _checked(each, part, _of_part(here, part), _of_part(there, part), None if source is None else ends)
        for each, part in zip(ranges, parts, strict=True)
    ]
    return Verified(checked, problems)


def _of_part(found: Mapping[tuple[str, int, int], PartSums], part: Part) -> PartSums:
    """Return the sums of a part. An empty part may start at the same offset as another one."""
    return found.get(part[:3], NOTHING) if part.start < part.end else NOTHING


def _ends(source: Input, topics: list[str]) -> dict[tuple[str, int], LogEnds]:
    """Return the ends of the partitions of the log; none for a topic that was deleted."""
    found: dict[tuple[str, int], LogEnds] = {}
    for topic in topics:
        with suppress(UnknownPartition):
            found |= {(each.topic, each.partition): each for each in source.ends([topic])}
    return found


def _shared_from(each: ArchivedRange, ends: dict[tuple[str, int], LogEnds]) -> int:
    return ends[each.place].earliest if each.place in ends else each.end


def _of_log(
    spark: SparkSession,
    source: Input,
    ranges: tuple[ArchivedRange, ...],
    parts: list[Part],
    ends: dict[tuple[str, int], LogEnds],
) -> dict[tuple[str, int, int], PartSums]:
    """Return the sums of the log's rows in the ranges."""
    wanted = []
    for each in merged(ranges):
        if each.place in ends:
            start, end = max(each.start, ends[each.place].earliest), min(each.end, ends[each.place].latest)
            if start < end:
                wanted.append(OffsetRange(*each.place, start, end))
    found: dict[tuple[str, int, int], PartSums] = {}
    while wanted:  # with gaps, a partition has several ranges; one read takes at most one range of each partition
        turn = list({(each.topic, each.partition): each for each in reversed(wanted)}.values())
        wanted = [each for each in wanted if each not in turn]
        found |= sums_of_parts(spark, source.rows(spark, turn), parts)
    return found


def _checked(
    each: ArchivedRange, part: Part, here: PartSums, there: PartSums, ends: dict[tuple[str, int], LogEnds] | None
) -> Checked:
    is_whole = (here.records, here.checksum) == (each.records, each.checksum)
    if ends is None:
        return Checked(each, is_whole, NOT_ASKED)
    if each.place not in ends or part.shared >= each.end > each.start:
        return Checked(each, is_whole, GONE)
    same = (here.shared_records, here.shared_checksum) == (there.shared_records, there.shared_checksum)
    return Checked(each, is_whole, SAME if same and ends[each.place].latest >= each.end else DIFFERENT)
