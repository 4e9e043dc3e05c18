"""The door to the disk: what has to be there after a crash, in which order."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pybroker.archive.errors import ArchiveBusy


class Files:
    """The local file system. Errors, of all methods: OSError."""

    def read(self, path: Path) -> bytes | None:
        """A file's bytes; None where there is none."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, path: Path, data: bytes) -> None:
        """Put a file there, or in another's place, at once: after a crash it is the old one or the new one, whole."""
        scratch = path.with_name(f"{path.name}.new")
        self.write(scratch, data)
        self.sync(scratch)
        self.rename(scratch, path)
        self.sync(path.parent)

    def write(self, path: Path, data: bytes) -> None:
        """Write a file as it comes."""
        path.write_bytes(data)

    def sync(self, path: Path) -> None:
        """Force a file, or a directory's entries, to the disk."""
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, old: Path, new: Path) -> None:
        """Move a file within the file system."""
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        """Remove a directory with all that is in it."""
        shutil.rmtree(path)

    def make_directory(self, path: Path) -> None:
        """Make a directory, and those above it, unless they are there."""
        path.mkdir(parents=True, exist_ok=True)

    def names(self, path: Path) -> list[str]:
        """What is in a directory, sorted; nothing where there is none."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def parquet(self, path: Path) -> Iterator[Path]:
        """The Parquet files below a directory, relative to it, sorted. What begins with _ or . is not looked at."""
        found = []
        for folder, folders, names in os.walk(path):
            folders[:] = [each for each in folders if each[0] not in "_."]
            found += [Path(folder, name) for name in names if name.endswith(".parquet") and name[0] not in "_."]
        return iter(sorted(each.relative_to(path) for each in found))

    def size(self, path: Path) -> int:
        """A file's bytes, how many."""
        return path.stat().st_size


class Lock:
    """A lock that ends with its process, on a file beside what it guards."""

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        """Errors: ArchiveBusy, OSError."""
        self._handle = _opened(path)
        try:
            self._take(path, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        except BaseException:
            self.close()
            raise

    def _take(self, path: Path, kind: int) -> None:
        try:
            fcntl.flock(self._handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ArchiveBusy(f"{path} is locked: another process works there") from None

    def share(self) -> None:
        """Let others have it as well, who only read."""
        fcntl.flock(self._handle, fcntl.LOCK_SH)

    def close(self) -> None:
        """Give it back."""
        os.close(self._handle)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        if path.exists():  # an archive that may only be read
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        raise
