"""File operations of an archive. Their order decides what a crash leaves on the disk."""

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
        """Return the bytes of a file; None when it does not exist."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, path: Path, data: bytes) -> None:
        """Create or replace a file atomically: after a crash it is the whole old one or the whole new one."""
        scratch = path.with_name(f"{path.name}.new")
        self.write(scratch, data)
        self.sync(scratch)
        self.rename(scratch, path)
        self.sync(path.parent)

    def write(self, path: Path, data: bytes) -> None:
        """Write a file. It is neither atomic nor forced to the disk."""
        path.write_bytes(data)

    def sync(self, path: Path) -> None:
        """Force a file, or the entries of a directory, to the disk."""
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, old: Path, new: Path) -> None:
        """Move a file within the file system."""
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""
        path.unlink(missing_ok=True)

    def remove_tree(self, path: Path) -> None:
        """Remove a directory with all its contents."""
        shutil.rmtree(path)

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents, unless they exist."""
        path.mkdir(parents=True, exist_ok=True)

    def names(self, path: Path) -> list[str]:
        """Return the sorted names in a directory; an empty list when it does not exist."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def parquet(self, path: Path) -> Iterator[Path]:
        """Yield the sorted relative paths of Parquet files below a directory; skip names that begin with _ or a dot."""
        found = []
        for folder, folders, names in os.walk(path):
            folders[:] = [each for each in folders if each[0] not in "_."]
            found += [Path(folder, name) for name in names if name.endswith(".parquet") and name[0] not in "_."]
        return iter(sorted(each.relative_to(path) for each in found))

    def size(self, path: Path) -> int:
        """Return the size of a file in bytes."""
        return path.stat().st_size


class Lock:
    """A lock on a file beside the files that it guards. It ends with the process."""

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        """Acquire the lock. Errors: ArchiveBusy, OSError."""
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
            raise ArchiveBusy(f"{path} is locked: another process uses it") from None

    def share(self) -> None:
        """Turn the lock into a shared one, which readers can hold at the same time."""
        fcntl.flock(self._handle, fcntl.LOCK_SH)

    def close(self) -> None:
        """Release the lock."""
        os.close(self._handle)


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        if path.exists():  # an archive on which this process may only read
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        raise
