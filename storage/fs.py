"""Every disk operation of the storage engine.

This is the only file of the room that imports `os` (`worker_process.py` is a process of its own), so tests can pass in
a double that fails the Nth call (`tests/support/disk_doubles/failing_fs.py`). Functions raise OSError as the system
reports it, and callers decide what it means. A pipe, socket or device in the place of a regular file raises OSError
too and never blocks. Handles are file descriptors; `OpenFile` (open_files.py) decides when one is closed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import NamedTuple

from protocol.records.buffer import Buffer

#: Linux: fail instead of waiting for the disk.
_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)

#: POSIX, but not available everywhere.
_RANDOM: int | None = getattr(os, "POSIX_FADV_RANDOM", None)
_WILLNEED: int | None = getattr(os, "POSIX_FADV_WILLNEED", None)

#: Most files that are read as a whole are smaller than this.
_SMALL_FILE = 4096
#: The default limit for files that are read as a whole.
_WHOLE_BYTES = 64 << 20
#: Worker processes do not inherit descriptors, and opening a pipe does not wait for its other end.
_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK
#: Modes of new files and directories. Only the broker may read records and the credentials in the metadata.
_FILE_MODE, _DIRECTORY_MODE = 0o600, 0o700


class DirEntry(NamedTuple):
    """An entry of a directory; `size_bytes` is 0 for directories."""

    name: str
    is_directory: bool
    size_bytes: int


class Identity(NamedTuple):
    """The attributes that change when a file is modified or replaced.

    No program can set the change time (ctime), and no copy preserves it. Clocks may go back, so compare two identities
    only for equality.
    """

    size_bytes: int
    inode: int
    modified_ns: int
    changed_ns: int


class FileSystem:
    """The local file system."""

    # Every append and read calls these two, so they are the system's functions without a wrapper.
    pread = staticmethod(os.pread)
    pwrite = staticmethod(os.pwrite)

    def open_read(self, path: str) -> int:
        return _open_file(path, os.O_RDONLY)

    @contextmanager
    def reading(self, path: str) -> Iterator[int]:
        """Open a file for reading and close it at the end of the block."""
        handle = self.open_read(path)
        try:
            yield handle
        finally:
            self.close(handle)

    def open_write(self, path: str, *, create: bool = False, empty: bool = False) -> int:
        """Open a file for reading and writing.

        `create` creates a missing file. `empty` creates it too, or truncates it to 0 bytes.
        """
        return _open_file(path, os.O_RDWR | (os.O_CREAT if create or empty else 0) | (os.O_TRUNC if empty else 0))

    def close(self, handle: int) -> None:
        os.close(handle)

    def write_at(self, handle: int, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all of `buffers` at `position`, repeating short writes until all bytes are written or a write fails."""
        if len(buffers) > 1:
            written = os.pwritev(handle, buffers, position)
            if written == sum(map(len, buffers)):
                return
            data = memoryview(b"".join(buffers))[written:]
            position += written
        else:
            data = memoryview(buffers[0])
        while data:
            written = self.pwrite(handle, data, position)
            data, position = data[written:], position + written

    def read_into(self, handle: int, buffer: bytearray | memoryview, position: int) -> int:
        """Read from `position` into `buffer` and return the number of bytes; fewer at the end of the file."""
        return os.preadv(handle, [buffer], position)

    def is_cached(self, handle: int, position: int) -> bool | None:
        """Return whether reading the page at `position` needs no disk access; None if the system cannot report it.

        Also False if the file has no such page.
        """
        if _NOWAIT is None:
            return None
        try:
            return os.preadv(handle, [bytearray(1)], position, _NOWAIT) == 1
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:  # for example tmpfs, which holds everything in memory
                return None
            raise

    def disable_read_ahead(self, handle: int) -> None:
        """Disable the kernel's read-ahead for this file."""
        if _RANDOM is not None:
            os.posix_fadvise(handle, 0, 0, _RANDOM)

    def read_ahead(self, handle: int, position: int, size: int) -> None:
        """Start reading a range into the page cache without waiting. Bytes beyond the end of the file are ignored."""
        if _WILLNEED is not None:
            os.posix_fadvise(handle, position, size, _WILLNEED)

    def truncate(self, handle: int, size_bytes: int) -> None:
        """Truncate the file, or extend it with a hole."""
        os.ftruncate(handle, size_bytes)

    def size(self, handle: int) -> int:
        return os.fstat(handle).st_size

    def size_of(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, handle: int) -> int:
        """Return the time of the last write in ms."""
        return os.fstat(handle).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set the time of the last write in ms."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def sync(self, handle: int) -> None:
        """Force the written data to the disk, with the metadata that is needed to read it (fdatasync)."""
        os.fdatasync(handle)

    def sync_path(self, path: str) -> None:
        """Force a file, or the names in a directory, to the disk (fsync)."""
        handle = os.open(path, os.O_RDONLY | _FLAGS)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, in order on each file system, without a stat of each."""
        return sorted(os.listdir(path))

    def list(self, path: str) -> list[DirEntry]:
        """Return the entries of a directory by name, without dangling links and files that are removed meanwhile.

        A link that leads to itself counts as an empty file, which cannot be opened.
        """
        found = []
        with os.scandir(path) as entries:
            for entry in sorted(entries, key=attrgetter("name")):
                try:
                    is_directory = entry.is_dir()
                    found.append(DirEntry(entry.name, is_directory, 0 if is_directory else entry.stat().st_size))
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if error.errno != errno.ELOOP:
                        raise
                    found.append(DirEntry(entry.name, False, 0))
        return found

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def read_file(self, path: str, most_bytes: int = _WHOLE_BYTES) -> bytes:
        """Return the content of a small file, or its first `most_bytes` bytes if it is larger.

        None of the broker's own files exceeds the default.
        """
        # The built-in `open` takes three times as long, and a start reads thousands of files.
        handle = _open_file(path, os.O_RDONLY)
        try:
            data = os.read(handle, min(_SMALL_FILE, most_bytes))
            if len(data) < _SMALL_FILE:
                return data
            return os.pread(handle, min(os.fstat(handle).st_size, most_bytes), 0)
        finally:
            os.close(handle)

    def write_file(self, path: str, data: bytes, *, sync: bool = False) -> None:
        """Create or overwrite the file. Not atomic. The OSError of a full disk names the file, too."""
        handle = _open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            self.write_at(handle, 0, (data,))
            if sync:
                os.fsync(handle)
        except OSError as error:
            error.filename = path
            raise
        finally:
            os.close(handle)

    def replace_file(self, path: str, data: bytes, *, sync: bool = False) -> None:
        """Replace the content of `path` atomically: after a crash the file has the old or the new bytes.

        With `sync` the new bytes are on the disk when the function returns.
        """
        temporary = path + ".tmp"
        self.write_file(temporary, data, sync=sync)
        self.rename(temporary, path)
        if sync:
            self.sync_path(os.path.dirname(path))

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def identity(self, path: str, *, follow: bool = True) -> Identity | None:
        """Return the identity of a file, which changes when the file is written or replaced; None if it is missing.

        The identity of a directory changes when a name in it changes. With `follow=False` a symbolic link has no
        identity (None), because its target may change at any time.
        """
        try:
            status = os.stat(path, follow_symlinks=follow)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(status.st_mode):
            return None
        return Identity(status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""
        with suppress(FileNotFoundError):
            os.unlink(path)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory, if it exists."""
        with suppress(FileNotFoundError):
            os.rmdir(path)

    def make_directory(self, path: str, *, sync: bool = False) -> None:
        """Create a directory and its parents, if missing. With `sync` they survive a power failure."""
        missing = []
        above = os.path.abspath(path)
        while sync and not os.path.exists(above):
            missing.append(above)
            above = os.path.dirname(above)
        try:
            os.makedirs(path, _DIRECTORY_MODE, exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(errno.ENOTDIR, "it is not a directory: remove it", path) from None
        for made in reversed(missing):
            self.sync_path(os.path.dirname(made))

    def check_usable(self, path: str) -> None:
        """Raise OSError unless `path` is a readable, writable directory or can be created. Changes nothing."""
        while True:
            try:
                status = os.stat(path)
                break
            except FileNotFoundError:
                path = os.path.dirname(os.path.abspath(path))
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    def real_path(self, path: str) -> str:
        """Return the path without symbolic links. It need not exist."""
        return os.path.realpath(path)

    def lock(self, path: str) -> int | None:
        """Lock a file; return its handle, or None if another process holds it.

        It is a POSIX record lock, like Java's FileLock. With another kind, Kafka and this broker could use one
        directory at the same time.
        """
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        except BaseException:
            os.close(handle)
            raise
        return handle


def _open_file(path: str, flags: int) -> int:
    """Open a regular file and return its descriptor. Raises OSError, also if it is not a regular file."""
    try:
        handle = os.open(path, flags | _FLAGS, _FILE_MODE)
    except OSError as error:
        if error.errno != errno.ENXIO:  # a socket, or a pipe without a reader
            raise
        raise OSError(errno.EINVAL, "not a regular file", path) from None
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return handle
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "not a regular file", path)


#: The real file system. Tests pass in others that fail on purpose.
LOCAL = FileSystem()
