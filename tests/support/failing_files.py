"""An archive's file operations that end the process at the Nth call, and rows in files without Parquet."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pybroker.archive.archiving import Write
from pybroker.archive.files import Files
from pybroker.source.bounds import TopicPartition
from pybroker.source.ranges import OffsetRange

#: every call that changes the disk or flushes to it
CALLS = ("replace", "write", "sync", "rename", "remove", "remove_tree", "make_directory")


class Died(BaseException):
    """The process has ended: none of our code handles this."""


class DyingFiles(Files):
    """The local file system, until call number `die_at` (from 1), which does nothing or half of its work."""

    def __init__(self, die_at: int = 0) -> None:
        self._die_at = die_at
        self.calls: list[str] = []

    @property
    def has_died(self) -> bool:
        return 0 < self._die_at <= len(self.calls)

    def count(self, name: str) -> None:
        """Count a call. Raises Died at the last call and at all later ones."""
        self.calls.append(name)
        if self.has_died:
            raise Died

    def write(self, path: Path, data: bytes) -> None:
        try:
            self.count("write")
        except Died:
            path.write_bytes(data[: len(data) // 2])
            raise
        super().write(path, data)

    def remove_tree(self, path: Path) -> None:
        try:
            self.count("remove_tree")
        except Died:
            for name in self.parquet(path / "rows") if path.exists() else ():
                (path / "rows" / name).unlink()
                break
            raise
        super().remove_tree(path)


def _counted(name: str) -> Callable[..., Any]:
    original = getattr(Files, name)

    def call(self: DyingFiles, *arguments: Any) -> Any:
        self.count(name)
        return original(self, *arguments)

    return call


for _name in CALLS:
    if _name not in ("write", "remove_tree"):
        setattr(DyingFiles, _name, _counted(_name))


class RowSums(NamedTuple):
    """The sums of pybroker.archive.parquet, without Spark."""

    topic: str
    partition: int
    records: int
    checksum: int
    first: int
    last: int

    @property
    def place(self) -> TopicPartition:
        return self.topic, self.partition


def days_of(offset: int) -> str:
    """Return the day on which a record of the double was written."""
    return f"date=2026-01-0{offset % 3 + 1}"


def put_rows(folder: Path, name: str, rows: Sequence[tuple[str, int, int]]) -> None:
    """Write rows, (topic, partition, offset), as a job does: a file for each day, and other files."""
    by_folder: dict[str, list[tuple[str, int, int]]] = {}
    for row in rows:
        by_folder.setdefault(f"topic={row[0]}/{days_of(row[2])}", []).append(row)
    folder.mkdir(parents=True)
    for below, found in by_folder.items():
        (folder / below).mkdir(parents=True)
        (folder / below / f"{name}.parquet").write_text(json.dumps(found))
        (folder / below / f".{name}.parquet.crc").write_bytes(b"crc")


def read_rows(path: Path) -> list[tuple[str, int, int]]:
    """Return the rows of a file."""
    return [(topic, partition, offset) for topic, partition, offset in json.loads(path.read_text())]


def count_rows(path: Path) -> int:
    """Return the number of rows of a file."""
    return len(read_rows(path))


def sums_of(rows: Sequence[tuple[str, int, int]]) -> list[RowSums]:
    """Return sums by partition; the checksum of a row is its offset squared."""
    found = []
    for place in sorted({row[:2] for row in rows}):
        offsets = [row[2] for row in rows if row[:2] == place]
        found.append(RowSums(*place, len(offsets), sum(each**2 for each in offsets), min(offsets), max(offsets)))
    return found


def writing(log: Sequence[tuple[str, int, int]], step: Callable[[str], None] = lambda name: None) -> Write:
    """Return a job that archives rows of a log and calls `step` before each action."""

    def write(ranges: Sequence[OffsetRange], folder: Path) -> list[RowSums]:
        rows = [row for row in log if any(each[:2] == row[:2] and each.start <= row[2] < each.end for each in ranges)]
        step("job")
        put_rows(folder, os.urandom(8).hex(), rows)
        step("job")
        return sums_of(rows)

    return write
