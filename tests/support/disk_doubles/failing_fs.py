"""A file system that fails when a test orders it. power_cut.py has one that loses unflushed data."""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from protocol.records.buffer import Buffer
from storage.fs import FileSystem

#: Every call that reaches the disk. `close` is left out: a sync reports its errors earlier.
CALLS = (
    "open_read",
    "open_write",
    "write_at",
    "truncate",
    "size",
    "size_of",
    "identity",
    "modified_ms",
    "sync",
    "sync_path",
    "names",
    "list",
    "read_file",
    "rename",
    "remove",
    "remove_directory",
    "make_directory",
)


class Died(BaseException):
    """The process has ended: none of our code handles this."""


class FailingFileSystem(FileSystem):
    """The local file system, but call number `fail_at` (from 1) raises, and with `broken` all later ones too.

    `calls` are the names of the calls so far. A failing write has written half of its bytes. With `dies` the process
    ends there.
    """

    def __init__(self, fail_at: int = 0, *, code: int = errno.ENOSPC, broken: bool = False, dies: bool = False) -> None:
        self.fail_at = fail_at
        self.code = code
        self.broken = broken or dies
        self.dies = dies
        self.calls: list[str] = []

    @property
    def has_failed(self) -> bool:
        return 0 < self.fail_at <= len(self.calls)

    def _count(self, name: str) -> bool:
        self.calls.append(name)
        return len(self.calls) == self.fail_at or (self.broken and self.has_failed)

    def _error(self) -> BaseException:
        if self.dies:
            return Died()
        return OSError(self.code, errno.errorcode[self.code])

    def pread(self, handle: int, size: int, position: int) -> bytes:
        if self._count("pread"):
            raise self._error()
        return FileSystem.pread(handle, size, position)

    def read_into(self, handle: int, buffer: bytearray | memoryview, position: int) -> int:
        if self._count("pread"):
            raise self._error()
        return super().read_into(handle, buffer, position)

    def pwrite(self, handle: int, data: Buffer, position: int) -> int:  # type: ignore[override]
        if self._count("pwrite"):
            FileSystem.pwrite(handle, memoryview(data)[: len(data) // 2], position)
            raise self._error()
        return FileSystem.pwrite(handle, data, position)

    def write_at(self, handle: int, position: int, buffers: Sequence[Buffer]) -> None:
        if self._count("write_at"):
            data = b"".join(buffers)
            FileSystem.pwrite(handle, data[: len(data) // 2], position)
            raise self._error()
        FileSystem.write_at(LOCAL_DELEGATE, handle, position, buffers)


LOCAL_DELEGATE = FileSystem()


def _failing(name: str) -> Callable[..., Any]:
    original = getattr(FileSystem, name)

    def call(self: FailingFileSystem, *args: Any, **kwargs: Any) -> Any:
        if self._count(name):
            raise self._error()
        return original(LOCAL_DELEGATE, *args, **kwargs)

    return call


for _name in CALLS:
    if _name != "write_at":
        setattr(FailingFileSystem, _name, _failing(_name))


class ShortWrites(FileSystem):
    """Writes a few bytes at a time, as a system may that is short of space or interrupted."""

    @staticmethod
    def pwrite(handle: int, data: Buffer, position: int) -> int:  # type: ignore[override]
        return FileSystem.pwrite(handle, memoryview(data)[:7], position)


class Unreadable(FileSystem):
    """The local file system, but no file below `path` can be opened for reading while `code` is set."""

    def __init__(self, path: Path) -> None:
        self._path = f"{path}/"
        self.code: int | None = None

    def open_read(self, path: str) -> int:
        if self.code is not None and path.startswith(self._path):
            raise OSError(self.code, os.strerror(self.code), path)
        return super().open_read(path)
