"""A file system that fails when it is told to, and one that loses what was never forced to the disk."""

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from storage.fs import Buffer, FileSystem

#: Every call that reaches the disk. `close` is left out: what it could report was reported by a sync before.
CALLS = (
    "open_read",
    "open_write",
    "write_at",
    "truncate",
    "size",
    "modified_ms",
    "sync",
    "sync_path",
    "list",
    "read_file",
    "rename",
    "remove",
    "remove_directory",
    "make_directory",
)


class FailingFileSystem(FileSystem):
    """The local one, but call number `fail_at` (from 1) raises, and with `broken` all later ones too.

    `calls` are the names of those made so far. A write that fails has written half of its bytes before.
    """

    def __init__(self, fail_at: int = 0, *, code: int = errno.ENOSPC, broken: bool = False) -> None:
        self.fail_at = fail_at
        self.code = code
        self.broken = broken
        self.calls: list[str] = []

    @property
    def has_failed(self) -> bool:
        return 0 < self.fail_at <= len(self.calls)

    def _count(self, name: str) -> bool:
        self.calls.append(name)
        return len(self.calls) == self.fail_at or (self.broken and self.has_failed)

    def _error(self) -> OSError:
        return OSError(self.code, errno.errorcode[self.code])

    def pread(self, handle: int, size: int, position: int) -> bytes:  # type: ignore[override]
        if self._count("pread"):
            raise self._error()
        return FileSystem.pread(handle, size, position)

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


class ForgetfulFileSystem(FileSystem):
    """Remembers what was forced to the disk; `lose_power` takes everything else away.

    A file's bytes last from its last sync on; its name from then, or from a sync of its directory on. A rename lasts at
    once, as a journal writes it soon, and takes along only what of the file was forced.
    """

    def __init__(self) -> None:
        self.durable: dict[str, bytes] = {}
        self._paths: dict[int, str] = {}

    def open_write(self, path: str, **kwargs: bool) -> int:
        handle = super().open_write(path, **kwargs)
        self._paths[handle] = path
        return handle

    def sync(self, handle: int) -> None:
        path = self._paths[handle]
        if self.exists(path):
            self.durable[path] = self.read_file(path)

    def sync_path(self, path: str) -> None:
        if not Path(path).is_dir():
            self.durable[path] = self.read_file(path)
            return
        for file in Path(path).iterdir():
            if file.is_file():
                self.durable.setdefault(str(file), b"")

    def write_file(self, path: str, data: bytes, *, sync: bool = False) -> None:
        super().write_file(path, data, sync=False)
        if sync:
            self.durable[path] = data

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        for path in [path for path in self.durable if path == old or path.startswith(old + "/")]:
            self.durable[new + path[len(old) :]] = self.durable.pop(path)

    def remove(self, path: str) -> None:
        super().remove(path)
        self.durable.pop(path, None)

    def lose_power(self, root: Path) -> None:
        """What the disk has afterwards."""
        for path in sorted(root.rglob("*")):
            if path.is_file():
                if str(path) in self.durable:
                    path.write_bytes(self.durable[str(path)])
                else:
                    path.unlink()
