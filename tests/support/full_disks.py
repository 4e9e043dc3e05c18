"""Disks that can be filled up: a limit on the size of files, and a small file system where one may be mounted."""

from __future__ import annotations

import resource
import subprocess
import tempfile
from pathlib import Path

from tests.support.brokers import OurBroker

LIMIT_BYTES = 1 << 20


def _may_mount() -> bool:
    with tempfile.TemporaryDirectory() as path:
        if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", path], capture_output=True).returncode:
            return False
        subprocess.run(["umount", path], check=True)
        return True


class LimitedDisk:
    """Files of a running broker may not become larger than `LIMIT_BYTES`."""

    outlasts_the_broker = False

    def __init__(self, path: Path) -> None:
        path.mkdir()

    def fill(self, broker: OurBroker) -> None:
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))

    def make_room(self) -> None:
        """A limit ends with its process."""

    def remove(self) -> None: ...


class SmallDisk:
    """A file system of a few megabytes."""

    outlasts_the_broker = True

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.path = path
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(path)], check=True)

    def fill(self, broker: OurBroker) -> None: ...

    def make_room(self) -> None:
        subprocess.run(["mount", "-o", "remount,size=100m", str(self.path)], check=True)

    def remove(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)


Disk = LimitedDisk | SmallDisk
DISKS: list[type[Disk]] = [LimitedDisk, *([SmallDisk] if _may_mount() else [])]
