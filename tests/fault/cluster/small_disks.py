"""A log directory on a small file system of its own, which a fault fills and empties again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tests.fault.full_disks import CannotBeHad, MountedDisk

_PIECE = bytes(1 << 12)


class SmallDisk(MountedDisk):
    """A file system with room for the logs of a test."""

    size = "64m"

    @property
    def _filler(self) -> Path:
        return self.path / "filler"

    def occupy(self) -> None:
        """Fill the disk with another file, until not one page is left."""
        with self._filler.open("wb", buffering=0) as filler, suppress(OSError):
            while True:
                filler.write(_PIECE)

    def make_room(self) -> None:
        self._filler.unlink()


def small_disk(path: Path) -> SmallDisk | None:
    """Mount a small disk, or return None where that is not allowed."""
    try:
        return SmallDisk(path)
    except CannotBeHad:
        return None
