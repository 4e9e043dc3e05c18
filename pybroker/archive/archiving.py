"""Copy offset ranges of a log into an archive. Each step is one run, which is committed as a whole."""

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

#: Offsets per step, over all partitions: the most that an interrupted command has to do again.
STEP_OFFSETS = 10_000_000


class Sums(Protocol):
    """The rows that were written of one partition: parquet.RowSums, without Spark."""

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
"""Write the records of the ranges below a folder, read them back, and return their sums."""


def archive_ranges(
    archive: Archive,
    ranges: Iterable[OffsetRange],
    write: Write,
    count_rows: Callable[[Path], int],
    *,
    step_offsets: int = STEP_OFFSETS,
    report: Callable[[str], None] = lambda line: None,
) -> tuple[list[ArchivedRange], list[ArchivedFile]]:
    """Archive ranges that follow the archived ones; return the new ranges and files.

    Errors: DamagedArchive when the files lack rows or have others; the errors of `write`; OSError. Steps that are
    committed already stay committed.
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
            report(f"{each.name}: {each.records} records")
        all_ranges += archived
        all_files += files
    return all_ranges, all_files


def _archived(ranges: Sequence[OffsetRange], found: Iterable[Sums]) -> list[ArchivedRange]:
    """Return the ranges with the sums of their rows. Errors: DamagedArchive for rows that belong to no range."""
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
        raise DamagedArchive(f"rows were written that belong to no requested range: {sorted(by_place)}")
    return archived


def _compare(ranges: Sequence[ArchivedRange], files: Sequence[ArchivedFile]) -> None:
    rows, counted = sum(each.records for each in files), sum(each.records for each in ranges)
    if rows != counted:
        raise DamagedArchive(f"the footers of the files count {rows} rows, but {counted} were read from the files")
