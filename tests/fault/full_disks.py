"""Disks that tests can fill: a limit on the size of files, and a file system of two megabytes.

The small file system is mounted in a mount namespace, which needs no root, and the broker runs in it. Where that is not
allowed, as in many containers, a small /dev/shm replaces it. If /dev/shm is large, the test warns, and only the
limit is tested.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.brokers import OurBroker

LIMIT_BYTES = 1 << 20
_LITTLE_BYTES = 2 << 20

_SHARED_MEMORY = Path("/dev/shm")
_SMALL_ENOUGH_BYTES = 256 << 20
"""How much of the machine's memory a test may fill."""

_NAME_SPACES = (("--mount",), ("--user", "--map-root-user", "--mount"))
"""Options of a mount namespace: for users that may mount, and with a user namespace for all others."""
_MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$0" && echo mounted && exec cat'


class CannotBeHad(Exception):
    """The machine does not allow a disk of this kind."""


class Disk(ABC):
    """A disk that a test fills. `path`: where its files are seen from outside of the broker."""

    outlasts_the_broker = True

    def __init__(self, path: Path) -> None:
        """`path`: where the broker sees it. Raises CannotBeHad."""
        self.path = path

    @property
    def entrance(self) -> Sequence[str]:
        """Return a command that runs another command in the namespace of the disk."""
        return ()

    @abstractmethod
    def fill(self, broker: OurBroker) -> None:
        """Leave little room on the disk from now on."""

    @abstractmethod
    def make_room(self) -> None:
        """Make room before the next start of the broker."""

    @abstractmethod
    def remove(self) -> None:
        """Remove the disk."""


class LimitedDisk(Disk):
    """A disk on which files of a running broker are limited to `LIMIT_BYTES`."""

    outlasts_the_broker = False

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        path.mkdir()

    def fill(self, broker: OurBroker) -> None:
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))

    def make_room(self) -> None:
        """Do nothing: the limit ended with the broker."""

    def remove(self) -> None:
        """Do nothing: the disk is a plain directory."""


class MountedDisk(Disk):
    """A file system of two megabytes, mounted where no other process sees it."""

    size = "2m"

    def __init__(self, path: Path) -> None:
        path.mkdir()
        for flags in _NAME_SPACES:
            command = ["unshare", *flags, "sh", "-c", _MOUNT, str(path), self.size]
            self._holder = subprocess.Popen(  # the namespace exists while this process waits for its input
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            assert self._holder.stdout is not None
            if self._holder.stdout.readline() == b"mounted\n":
                break
            _, errors = self._holder.communicate()
        else:
            raise CannotBeHad(errors.decode(errors="replace").strip())
        self._flags = [flag for flag in flags if flag != "--map-root-user"]
        self._inside = path
        super().__init__(Path(f"/proc/{self._holder.pid}/root{path}"))

    @property
    def entrance(self) -> Sequence[str]:
        keep_user = ["--preserve-credentials"] if "--user" in self._flags else []
        return ["nsenter", "--target", str(self._holder.pid), *self._flags, *keep_user]

    def fill(self, broker: OurBroker) -> None:
        """Do nothing: there is little room from the start."""

    def make_room(self) -> None:
        # If its source is named, `mount` does not repeat the existing options, some of which a user may not set.
        remount = ["mount", "-t", "tmpfs", "-o", "remount,size=100m", "tmpfs", str(self._inside)]
        subprocess.run([*self.entrance, *remount], check=True)

    def remove(self) -> None:
        self._holder.communicate()


class SharedMemory(Disk):
    """A small /dev/shm: a container has 64 MiB by default. Another file fills all but two."""

    def __init__(self, path: Path) -> None:
        status = os.statvfs(_SHARED_MEMORY)
        if status.f_frsize * status.f_blocks > _SMALL_ENOUGH_BYTES:
            raise CannotBeHad(f"{_SHARED_MEMORY} is too large to be filled")
        self._directory = Path(tempfile.mkdtemp(dir=_SHARED_MEMORY))
        self._filler = self._directory / "filler"
        with self._filler.open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, status.f_frsize * status.f_bavail - _LITTLE_BYTES)
        (self._directory / "data").mkdir()
        path.symlink_to(self._directory / "data")
        super().__init__(path)

    def fill(self, broker: OurBroker) -> None:
        """Do nothing: there is little room from the start."""

    def make_room(self) -> None:
        self._filler.unlink()

    def remove(self) -> None:
        shutil.rmtree(self._directory)


def _small_disks() -> list[type[Disk]]:
    """Return the first kind of disk that works here."""
    reasons = []
    for kind in (MountedDisk, SharedMemory):
        with tempfile.TemporaryDirectory() as directory:
            try:
                kind(Path(directory) / "probe").remove()
                return [kind]
            except CannotBeHad as error:
                reasons.append(str(error))
    warnings.warn(f"no file system is small: limits stand for full disks ({'; '.join(reasons)})", stacklevel=1)
    return []


DISKS: list[type[Disk]] = [LimitedDisk, *_small_disks()]


class BrokerOnDisk(OurBroker):
    """A broker that runs in the namespace of a disk."""

    def __init__(self, directory: Path, properties: Mapping[str, str], disk: Disk) -> None:
        self._disk = disk
        super().__init__(directory, properties)

    def _command(self, config: Path) -> list[str]:
        return [*self._disk.entrance, *super()._command(config)]
