"""Rewrite the many small files of a day as a few large ones, ordered by partition and offset. Planned without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pybroker.archive.errors import DamagedArchive
from pybroker.archive.manifest import ArchivedFile
from pybroker.archive.store import Archive

#: A size that readers of Parquet handle well.
TARGET_BYTES = 128 << 20


class Compaction(NamedTuple):
    """Files of one topic to be merged into fewer files of about `rows` rows each."""

    topic: str
    files: list[ArchivedFile]
    most_rows: int

    @property
    def folders(self) -> int:
        """Return the number of days that the files cover."""
        return len({each.folder for each in self.files})


Rewrite = Callable[[Compaction, Path], tuple[Any, Any]]
"""Rewrite the rows of files below a folder; return the sums of the old files and of the new ones."""


def plan(files: Iterable[ArchivedFile], target_bytes: int) -> list[Compaction]:
    """Return, for each topic, the days that have several files smaller than half of the target."""
    small: dict[tuple[str, str], list[ArchivedFile]] = {}
    for each in files:
        if each.bytes < max(2, target_bytes) // 2:
            small.setdefault((each.topic, each.folder), []).append(each)
    by_topic: dict[str, list[ArchivedFile]] = {}
    for (topic, _), found in sorted(small.items()):
        if len(found) > 1:
            by_topic.setdefault(topic, []).extend(found)
    return [
        Compaction(topic, found, _rows_of(sum(each.records for each in found), _bytes_of(found), target_bytes))
        for topic, found in by_topic.items()
    ]


def compact(
    archive: Archive,
    rewrite: Rewrite,
    count_rows: Callable[[Path], int],
    target_bytes: int = TARGET_BYTES,
    report: Callable[[str], None] = lambda line: None,
) -> tuple[int, int]:
    """Compact the archive, one run for each topic; return how many files were removed and how many were added.

    Errors: DamagedArchive when the new files do not have the rows of the old ones; the errors of `rewrite`; OSError.
    """
    gone = come = 0
    for each in plan(archive.manifest.files, target_bytes):
        run = archive.begin()
        try:
            before, after = rewrite(each, run.rows)
            files = archive.written(run, count_rows)
            if before != after or _rows(files) != _rows(each.files):
                raise DamagedArchive(
                    f"{each.topic}: the rewritten rows differ from the rows that were read. The old files are kept"
                )
        except Exception:
            archive.abandon(run)
            raise
        archive.commit_compacted(run, files, [old.path for old in each.files])
        report(f"{each.topic}: {len(each.files)} files are {len(files)} now")
        gone += len(each.files)
        come += len(files)
    return gone, come


def _rows(files: Sequence[ArchivedFile]) -> int:
    return sum(each.records for each in files)


def _bytes_of(files: Sequence[ArchivedFile]) -> int:
    return sum(each.bytes for each in files)


def _rows_of(rows: int, size_bytes: int, target_bytes: int) -> int:
    return max(1, rows * target_bytes // max(1, size_bytes))
