"""Many small files of a day into few: the same rows, in the order of partitions and offsets. Planned without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pybroker.archive.errors import DamagedArchive
from pybroker.archive.manifest import ArchivedFile
from pybroker.archive.store import Archive

#: As large as readers of Parquet like them.
TARGET_BYTES = 128 << 20


class Compaction(NamedTuple):
    """Files of one topic that become fewer ones, of about so many rows each."""

    topic: str
    files: list[ArchivedFile]
    most_rows: int

    @property
    def folders(self) -> int:
        """Of how many days."""
        return len({each.folder for each in self.files})


Rewrite = Callable[[Compaction, Path], tuple[Any, Any]]
"""Write the rows of files below a folder: what a reading of the old files tells, and one of the new."""


def plan(files: Iterable[ArchivedFile], target_bytes: int) -> list[Compaction]:
    """For each topic the days with several files below half of the target."""
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
    tell: Callable[[str], None] = lambda line: None,
) -> tuple[int, int]:
    """Compact what there is to compact, a topic a run: how many files went, and how many came.

    Errors: DamagedArchive where the new files do not have what the old ones have; those of `rewrite`; OSError.
    """
    gone = come = 0
    for each in plan(archive.manifest.files, target_bytes):
        run = archive.begin()
        try:
            before, after = rewrite(each, run.rows)
            files = archive.written(run, count_rows)
            if before != after or _rows(files) != _rows(each.files):
                raise DamagedArchive(f"{each.topic}: rewritten rows are not those that were read: the old files stay")
        except Exception:
            archive.abandon(run)
            raise
        archive.commit_compacted(run, files, [old.path for old in each.files])
        tell(f"{each.topic}: {len(each.files)} files are {len(files)} now")
        gone += len(each.files)
        come += len(files)
    return gone, come


def _rows(files: Sequence[ArchivedFile]) -> int:
    return sum(each.records for each in files)


def _bytes_of(files: Sequence[ArchivedFile]) -> int:
    return sum(each.bytes for each in files)


def _rows_of(rows: int, size_bytes: int, target_bytes: int) -> int:
    return max(1, rows * target_bytes // max(1, size_bytes))
