"""A directory as a store: local, or shared by NFS or the like. Keys are paths of files."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO
from uuid import uuid4

from remote.errors import Absent, Damaged, Denied, Exists, OutOfSpace, RemoteStorageError, Unreachable
from remote.store import Listed, Source

#: Bytes copied by one system call.
_PIECE_BYTES = 8 << 20
#: An object while it is written: never listed, and removed after a failure.
_PARTIAL = ".partial"
_ERRORS: dict[int, type[RemoteStorageError]] = {
    errno.ENOENT: Absent,
    errno.ENOTDIR: Absent,
    errno.EEXIST: Exists,
    errno.EACCES: Denied,
    errno.EPERM: Denied,
    errno.EROFS: Denied,
    errno.ENOSPC: OutOfSpace,
    errno.EDQUOT: OutOfSpace,
}


class DirectoryStore:
    """Objects below `root`. An object is on the disk when `put` returns.

    `needed` is a folder in it that is there as long as the directory is: without it, a file server is not mounted, and
    nothing is stored, nothing counts as deleted or absent. None: nothing is checked.
    """

    def __init__(self, root: str, needed: str | None = None) -> None:
        self._root = root
        self._needed = None if needed is None else f"{root}/{needed}"

    def put(self, key: str, content: bytes | Source) -> None:
        """Store an object under another name, force it to the disk, and link it to its key."""
        with _reported(key):
            self._check_mounted(key)
            path = self._path(key)
            folder = os.path.dirname(path)
            os.makedirs(folder, exist_ok=True)
            partial = f"{folder}/{uuid4().hex}{_PARTIAL}"
            try:
                _write(partial, content)
                os.link(partial, path)
            finally:
                with suppress(FileNotFoundError):
                    os.remove(partial)
            _sync(folder)

    def get(self, key: str, start: int = 0, size_bytes: int | None = None) -> bytes:
        """Read a part of the file."""
        with _reported(key), self._opened(key) as file:
            available = max(0, os.fstat(file.fileno()).st_size - start)
            wanted = available if size_bytes is None else size_bytes
            if wanted > available:
                raise Damaged(key, f"has {available} bytes from {start} on, not {wanted}")
            data = os.pread(file.fileno(), wanted, start)
            while len(data) < wanted and (more := os.pread(file.fileno(), wanted - len(data), start + len(data))):
                data += more
            if len(data) != wanted:
                raise Damaged(key, f"has {len(data)} bytes from {start} on, not {wanted}")
            return data

    def delete(self, keys: Sequence[str]) -> None:
        """Remove files, and the folder of each if it is empty then."""
        for key in keys:
            with _reported(key):
                self._check_mounted(key)
                path = self._path(key)
                with suppress(FileNotFoundError):
                    os.remove(path)
                with suppress(OSError):
                    os.rmdir(os.path.dirname(path))

    def list(self, prefix: str) -> Iterator[Listed]:
        """Walk through the folders below the prefix."""
        with _reported(prefix):
            self._check_mounted(prefix)
            yield from self._walk(prefix.rstrip("/"))

    def _walk(self, folder: str) -> Iterator[Listed]:
        path = self._path(folder)
        if not os.path.isdir(path):
            return
        with os.scandir(path) as entries:
            for entry in entries:
                key = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir():
                    yield from self._walk(key)
                elif not entry.name.endswith(_PARTIAL):
                    yield Listed(key, entry.stat().st_size)

    def _opened(self, key: str) -> BinaryIO:
        try:
            return open(self._path(key), "rb", buffering=0)
        except (FileNotFoundError, NotADirectoryError):  # a file may be in the place of the directory
            self._check_mounted(key)
            raise

    def _check_mounted(self, key: str) -> None:
        if self._needed is not None and not os.path.isdir(self._needed):
            raise Unreachable(key, f"the directory {self._needed} is gone: is the file server mounted?")

    def _path(self, key: str) -> str:
        if ".." in key.split("/") or key.startswith("/"):
            raise Damaged(key, "leads out of the store")
        return f"{self._root}/{key}"


@contextmanager
def _reported(key: str) -> Iterator[None]:
    """Turn OSError into the error of the store."""
    try:
        yield
    except OSError as error:
        kind = _ERRORS.get(error.errno or 0, Unreachable)
        raise kind(key, error.strerror or error) from error


def _write(path: str, content: bytes | Source) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if isinstance(content, Source):
            _copy(content, handle)
        else:
            view = memoryview(content)
            while view:
                view = view[os.write(handle, view) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def _copy(source: Source, target: int) -> None:
    """Copy in the kernel. Raises Damaged if the file is shorter than it was."""
    handle = os.open(source.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        position = 0
        while position < source.size_bytes:
            copied = os.sendfile(target, handle, position, min(_PIECE_BYTES, source.size_bytes - position))
            if not copied:
                raise Damaged(source.path, f"has {position} bytes, not {source.size_bytes}")
            position += copied
    finally:
        os.close(handle)


def _sync(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
