"""A log file as writers and rotations change it, and its follower."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from pybroker.ship.follower import Follower
from pybroker.ship.log_file import LogFile
from pybroker.ship.positions import Position

LATER_NS = 1 << 62
"""a time at which no file has changed for long"""


class WrittenLog:
    """access.log in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "access.log"

    def write(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def rotated(self, number: int = 1) -> Path:
        return self.path.with_name(f"access.log.{number}")

    def rename(self, number: int = 1) -> None:
        self.path.rename(self.rotated(number))

    def copy_and_truncate(self, number: int = 1) -> None:
        shutil.copyfile(self.path, self.rotated(number))
        self.truncate()

    def truncate(self) -> None:
        with self.path.open("r+") as file:
            file.truncate(0)


class Reader:
    """A follower, its reports, and its position."""

    def __init__(self, log: WrittenLog, *, max_line_bytes: int = 1000) -> None:
        self.reports: list[str] = []
        self.now_ns = LATER_NS
        self.reached: tuple[LogFile, int] | None = None
        self.follower = Follower(log.path, max_line_bytes, self.reports.append, lambda: self.now_ns)

    def lines(self) -> list[str]:
        """Return all present lines."""
        found: list[str] = []
        self.follower.watch()
        for _ in range(20):  # at the end of a file one call may return nothing
            for file, line in self.follower.read():
                found.append(line.value.decode())
                self.reached = (file, line.end)
        return found

    def position(self) -> Position:
        assert self.reached is not None
        file, end = self.reached
        return file.position_at(end)


def from_beginning(log: WrittenLog, **options: int) -> Reader:
    reader = Reader(log, **options)
    reader.follower.start(from_beginning=True)
    return reader


def resumed(log: WrittenLog, position: Position | None, since_ns: int = 0, others: Iterable[Position] = ()) -> Reader:
    """Return another process's reader, after the first one's end."""
    reader = Reader(log)
    reader.follower.resume(position, since_ns, others)
    return reader
