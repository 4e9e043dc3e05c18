"""A log as its writers and rotations treat it, and one who follows it."""

from __future__ import annotations

import shutil
from pathlib import Path

from pybroker.ship.follower import Follower
from pybroker.ship.log_file import LogFile
from pybroker.ship.positions import Position

LATER_NS = 1 << 62
"""A time at which every file has been quiet for long."""


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
    """A follower, what it told, and where it has come to."""

    def __init__(self, log: WrittenLog, *, max_line_bytes: int = 1000) -> None:
        self.told: list[str] = []
        self.now_ns = LATER_NS
        self.reached: tuple[LogFile, int] | None = None
        self.follower = Follower(log.path, max_line_bytes, self.told.append, lambda: self.now_ns)

    def lines(self) -> list[str]:
        """All that is there now."""
        found: list[str] = []
        self.follower.watch()
        for _ in range(20):  # a file's end is one call that gives nothing, perhaps
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


def resumed(log: WrittenLog, position: Position | None, since_ns: int = 0) -> Reader:
    """Another process, after the first one's end."""
    reader = Reader(log)
    reader.follower.resume(position, since_ns)
    return reader
