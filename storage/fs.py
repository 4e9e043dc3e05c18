"""The only door to the disk: what this room needs of `os`, and nothing else.

Thin on purpose. Everything raises OSError as the system gives it; callers decide what that means. A pipe, a socket or a
device where a regular file should be is such an error as well, and is never waited for. Tests pass in a double that
fails the Nth call (`tests/support/failing_fs.py`), which is why no other file of the room imports os. Handles are the
system's file descriptors; `OpenFile` (open_files.py) says who may close them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from protocol.records.buffer import Buffer

#: Linux: fail where a read would wait for the disk.
_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)

#: POSIX, but not everywhere.
_RANDOM: int | None = getattr(os, "POSIX_FADV_RANDOM", None)
_WILLNEED: int | None = getattr(os, "POSIX_FADV_WILLNEED", None)

#: Most files that are read as a whole are smaller.
_SMALL_FILE = 4096
#: Files that are read as a whole have no more, unless the caller knows better.
_WHOLE_BYTES = 64 << 20
#: Not inherited by workers, and never waiting for somebody at the other end.
_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK
#: Modes of new files and directories: records, and the credentials among the metadata, are for the broker alone.
_FILE_MODE, _DIRECTORY_MODE = 0o600, 0o700


class DirEntry(NamedTuple):
    """A name in a directory; the size is that of files."""

    name: str
    is_directory: bool
    size_bytes: int


class Identity(NamedTuple):
    """What tells a file from another, or from itself before it was changed.

    Nobody can set the change time (ctime), and no copy keeps it. But clocks may go back, so two of these are compared
    for equality only.
    """

    size_bytes: int
    inode: int
    modified_ns: int
    changed_ns: int


class FileSystem:
    """The local file system."""

    # These two are on the way of every append and read: the system's own functions, with nothing in between.
    pread = staticmethod(os.pread)
    pwrite = staticmethod(os.pwrite)

    def open_read(self, path: str) -> int:
        return _open_file(path, os.O_RDONLY)

    @contextmanager
    def reading(self, path: str) -> Iterator[int]:
        """A file's handle, closed at the end of the block."""
        handle = self.open_read(path)
        try:
            yield handle
        finally:
            self.close(handle)

    def open_write(self, path: str, *, create: bool = False, empty: bool = False) -> int:
        """For reading and writing; with `create` the file is made where it is missing, with `empty` emptied if not."""
        return _open_file(path, os.O_RDWR | (os.O_CREAT if create or empty else 0) | (os.O_TRUNC if empty else 0))

    def close(self, handle: int) -> None:
        os.close(handle)

    def write_at(self, handle: int, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all of `buffers` at `position`. If the system writes less, the rest follows until a write fails."""
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
        """Fill `buffer` from `position` on, as far as the file goes; the number of bytes. Makes no new object."""
        return os.preadv(handle, [buffer], position)

    def is_cached(self, handle: int, position: int) -> bool | None:
        """Whether the page at `position` can be read without waiting for the disk; None where nobody can tell.

        False, too, where the file has no such page.
        """
        if _NOWAIT is None:
            return None
        try:
            return os.preadv(handle, [bytearray(1)], position, _NOWAIT) == 1
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:  # tmpfs, for one, which has everything in memory
                return None
            raise

    def keep_from_reading_ahead(self, handle: int) -> None:
        """From now on only what is asked for is read from the disk."""
        if _RANDOM is not None:
            os.posix_fadvise(handle, 0, 0, _RANDOM)

    def read_ahead(self, handle: int, position: int, size: int) -> None:
        """Have the disk begin to read, without waiting for it. What lies beyond the end of the file is left out."""
        if _WILLNEED is not None:
            os.posix_fadvise(handle, position, size, _WILLNEED)

    def truncate(self, handle: int, size_bytes: int) -> None:
        """Cut the file, or lengthen it by a hole."""
        os.ftruncate(handle, size_bytes)

    def size(self, handle: int) -> int:
        return os.fstat(handle).st_size

    def size_of(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, handle: int) -> int:
        """When the file was last written to."""
        return os.fstat(handle).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Say when the file was last written to."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def sync(self, handle: int) -> None:
        """Force what was written to the disk, with as much metadata as reading it needs."""
        os.fdatasync(handle)

    def sync_path(self, path: str) -> None:
        """Force a file, or the names in a directory, to the disk."""
        handle = os.open(path, os.O_RDONLY | _FLAGS)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def names(self, path: str) -> list[str]:
        """The names in a directory, in no order, without a look at what they stand for."""
        return os.listdir(path)

    def list(self, path: str) -> list[DirEntry]:
        """What is in a directory, in no order. Files that vanish meanwhile are left out."""
        found = []
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    is_directory = entry.is_dir()
                    found.append(DirEntry(entry.name, is_directory, 0 if is_directory else entry.stat().st_size))
                except FileNotFoundError:
                    continue
        return found

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def read_file(self, path: str, most_bytes: int = _WHOLE_BYTES) -> bytes:
        """All of a small file; of one with more than `most_bytes`, which is none of ours, those at its front."""
        handle = _open_file(path, os.O_RDONLY)  # `open` takes three times as long: a start reads thousands
        try:
            data = os.read(handle, min(_SMALL_FILE, most_bytes))
            if len(data) < _SMALL_FILE:
                return data
            return os.pread(handle, min(os.fstat(handle).st_size, most_bytes), 0)
        finally:
            os.close(handle)

    def write_file(self, path: str, data: bytes, *, sync: bool = False) -> None:
        """Make the file or write it anew, not atomically."""
        handle = _open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            self.write_at(handle, 0, (data,))
            if sync:
                os.fsync(handle)
        finally:
            os.close(handle)

    def replace_file(self, path: str, data: bytes, *, sync: bool = False) -> None:
        """Put `data` in the place of `path`: afterwards, also after a crash, it holds the old or the new bytes.

        With `sync` the new ones are on the disk on return.
        """
        temporary = path + ".tmp"
        self.write_file(temporary, data, sync=sync)
        self.rename(temporary, path)
        if sync:
            self.sync_path(os.path.dirname(path))

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def identity(self, path: str, *, follow: bool = True) -> Identity | None:
        """Differs once the file was written to, or another has taken its place; None where there is no file.

        A directory's differs once a name in it has changed. Without `follow` a symbolic link has none: what it points
        to may change at any time.
        """
        try:
            status = os.stat(path, follow_symlinks=follow)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(status.st_mode):
            return None
        return Identity(status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)

    def remove(self, path: str) -> None:
        """Remove a file; one that is not there is fine."""
        with suppress(FileNotFoundError):
            os.unlink(path)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory; one that is not there is fine."""
        with suppress(FileNotFoundError):
            os.rmdir(path)

    @contextmanager
    def exclusive(self, path: str) -> Iterator[None]:
        """Hold a lock on a file, made if it is missing; waits for any process, or thread, that holds it."""
        handle = _open_file(path, os.O_RDWR | os.O_CREAT)  # NFS gives no lock on what cannot be written
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)  # and so the lock is given up

    def make_directory(self, path: str, *, sync: bool = False) -> None:
        """Make a directory and those above it; one that is there is fine. With `sync` they survive a power loss."""
        missing = []
        above = os.path.abspath(path)
        while sync and not os.path.exists(above):
            missing.append(above)
            above = os.path.dirname(above)
        os.makedirs(path, _DIRECTORY_MODE, exist_ok=True)
        for made in reversed(missing):
            self.sync_path(os.path.dirname(made))

    def check_usable(self, path: str) -> None:
        """OSError unless `path` is a directory to read and write in, or may be made. Changes nothing."""
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
        """The path without symbolic links, whether or not it is there."""
        return os.path.realpath(path)

    def lock(self, path: str, part: int | None = None) -> int | None:
        """Take the lock file, or a part that `share_lock` has left; its handle, or None where another process holds it.

        A POSIX record lock, as Java's FileLock is: another kind would not keep Kafka and this broker apart.
        """
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            if part is None:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            else:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, part)
        except BlockingIOError:
            os.close(handle)
            return None
        except BaseException:
            os.close(handle)
            raise
        return handle

    def share_lock(self, handle: int) -> None:
        """Keep part 0 of a lock, which still keeps out who wants all of it, and leave the parts from 1 on to others."""
        fcntl.lockf(handle, fcntl.LOCK_UN, 0, 1)


def _open_file(path: str, flags: int) -> int:
    """A regular file's descriptor. OSError, also for anything that is no regular file."""
    try:
        handle = os.open(path, flags | _FLAGS, _FILE_MODE)
    except OSError as error:
        if error.errno != errno.ENXIO:  # a socket, or a pipe that nobody reads
            raise
        raise OSError(errno.EINVAL, "no regular file", path) from None
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return handle
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, "no regular file", path)


#: The real one. Others are handed in where a test wants to see failures.
LOCAL = FileSystem()
