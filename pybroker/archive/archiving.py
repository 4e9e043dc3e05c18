"""Ranges of a log into an archive: each turn is a run that counts as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from pybroker.archive.errors import DamagedArchive
from pybroker.archive.manifest import ArchivedFile, ArchivedRange
from pybroker.archive.planning import steps
from pybroker.archive.store import Archive
from pybroker.source.bounds import TopicPartition
from pybroker.source.ranges import OffsetRange

#: So many offsets a turn, of all partitions together: what an interrupted run has to do again at most.
STEP_OFFSETS = 10_000_000


class Sums(Protocol):
    """What was written of one partition: parquet.RowSums, without Spark."""

    @property
    def place(self) -> TopicPartition: ...
    @property
    def records(self) -> int: ...
    @property
    def checksum(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...


Write = Callable[[Sequence[OffsetRange], Path], Iterable[Sums]]
"""Write the records of ranges below a folder, and read again what is there."""


def archive_ranges(
    archive: Archive,
    ranges: Iterable[OffsetRange],
    write: Write,
    count_rows: Callable[[Path], int],
    *,
    step_offsets: int = STEP_OFFSETS,
    tell: Callable[[str], None] = lambda line: None,
) -> tuple[list[ArchivedRange], list[ArchivedFile]]:
    """Archive ranges that follow what is archived; they, and the files.

    Errors: DamagedArchive where files do not have what they should; those of `write`; OSError. What was committed
    before stays.
    """
    all_ranges, all_files = [], []
    for turn in steps(ranges, step_offsets):
        run = archive.begin()
        try:
            full = [each for each in turn if each.size]
            archived = _archived(turn, write(full, run.rows) if full else ())
            files = archive.written(run, count_rows)
            _compare(archived, files)
        except Exception:
            archive.abandon(run)
            raise
        archive.commit(run, archived, files)
        for each in archived:
            tell(f"{each.name}: {each.records} records")
        all_ranges += archived
        all_files += files
    return all_ranges, all_files


def _archived(ranges: Sequence[OffsetRange], found: Iterable[Sums]) -> list[ArchivedRange]:
    """The ranges with what was found of them in the files. Errors: DamagedArchive for what belongs to none."""
    by_place = {each.place: each for each in found}
    archived = []
    for each in ranges:
        sums = by_place.pop((each.topic, each.partition), None)
        if sums is not None and not each.start <= sums.first <= sums.last < each.end:
            raise DamagedArchive(f"{each.topic}-{each.partition}: {sums.first} to {sums.last} were written for {each}")
        records, checksum = (0, 0) if sums is None else (sums.records, sums.checksum)
        if records > each.size:
            raise DamagedArchive(f"{each.topic}-{each.partition}: {records} rows were written for {each}")
        archived.append(ArchivedRange(*each, records=records, checksum=checksum))
    if by_place:
        raise DamagedArchive(f"rows were written that nobody has asked for: {sorted(by_place)}")
    return archived


def _compare(ranges: Sequence[ArchivedRange], files: Sequence[ArchivedFile]) -> None:
    rows, counted = sum(each.records for each in files), sum(each.records for each in ranges)
    if rows != counted:
        raise DamagedArchive(f"the files have {rows} rows by their footers, and {counted} were read from them")
