"""A log directory on a small file system of its own, which a fault fills and empties again."""

from __future__ import annotations

import errno
import os
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
        with self._filler.open("wb", buffering=0) as filler:
            while True:
                try:
                    filler.write(_PIECE * max(1, self._free_pages))
                except OSError as error:
                    assert error.errno == errno.ENOSPC
                    return

    @property
    def _free_pages(self) -> int:
        return os.statvfs(self.path).f_bavail // 2

    def make_room(self) -> None:
        self._filler.unlink()


def small_disk(path: Path) -> SmallDisk | None:
    """Mount a small disk, or return None where that is not allowed."""
    try:
        return SmallDisk(path)
    except CannotBeHad:
        return None
