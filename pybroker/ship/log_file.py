"""One open file of a log, whatever its name is now: its lines, and how to recognise it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pybroker.ship.lines import Line, LineSplitter
from pybroker.ship.positions import Position

#: The number of bytes at the start of a file by which it is recognised.
HEAD_BYTES = 4096
_CHUNK_BYTES = 256 * 1024


class LogFile:
    """Reads lines from its current offset. It remembers the first bytes to detect a truncation.

    Errors: OSError when the file cannot be opened, or is not a regular file.
    """

    def __init__(self, path: Path, max_line_bytes: int, offset: int = 0) -> None:
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        self.status = os.fstat(self.fd)
        if not stat.S_ISREG(self.status.st_mode):
            os.close(self.fd)
            raise OSError(0, "is not a regular file", str(path))
        self.is_cut_off = False
        """The file was truncated and no copy was found: its unread content is lost."""
        self._lines = LineSplitter(max_line_bytes, offset)
        self._head = os.pread(self.fd, HEAD_BYTES, 0)

    def close(self) -> None:
        os.close(self.fd)

    @property
    def line_start(self) -> int:
        """Return the offset after the last returned line."""
        return self._lines.line_start

    def position_at(self, offset: int) -> Position:
        """Return the position after a returned line, for a restart; the file may be closed."""
        return Position.of(self.status, offset, self._head)

    def has_inode(self, status: os.stat_result) -> bool:
        return (self.status.st_dev, self.status.st_ino) == (status.st_dev, status.st_ino)

    @property
    def has_head(self) -> bool:
        """Whether the file has content by which it can be recognised."""
        return bool(self._head)

    def begins_like(self, path: Path) -> bool:
        """Whether the file at `path` begins with the bytes that this one begins with."""
        try:
            with path.open("rb") as other:
                return other.read(len(self._head)) == self._head
        except OSError:
            return False

    def may_be_copied_to(self, head: bytes) -> bool:
        """Whether a file that begins with `head`, and perhaps still grows, may be a copy of this one."""
        return bool(self._head) and (self._head.startswith(head) or head.startswith(self._head))

    def is_truncated(self) -> bool:
        """Return whether bytes that were read were removed, even if the file has grown again since."""
        head = os.pread(self.fd, HEAD_BYTES, 0)
        if os.fstat(self.fd).st_size < self._lines.offset or not head.startswith(self._head):
            return True
        self._head = head
        return False

    def read(self) -> list[Line]:
        """Return the lines that end in the next 256 KiB; none when the file was truncated."""
        if self.is_cut_off:
            return []
        data = os.pread(self.fd, _CHUNK_BYTES, self._lines.offset)
        if not data or self.is_truncated():  # checked after the read: a truncation may happen during it
            return []
        return self._lines.feed(data)

    def rest(self) -> Line | None:
        """Return the last line of a complete file that does not end with a newline."""
        return self._lines.rest()

    def is_read(self) -> bool:
        return self.is_cut_off or os.fstat(self.fd).st_size <= self._lines.offset

    def was_written(self) -> bool:
        """Whether the file was written to, and perhaps truncated, since it was opened."""
        return os.fstat(self.fd).st_mtime_ns != self.status.st_mtime_ns

    def is_empty(self) -> bool:
        return os.fstat(self.fd).st_size == 0

    def modified_ns(self) -> int:
        return os.fstat(self.fd).st_mtime_ns


def last_line_start(path: Path, max_line_bytes: int) -> int:
    """Return the offset of the last line if it has no newline yet; otherwise the end of the file."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        first = file.seek(max(0, size - max_line_bytes))
        newline = file.read(size - first).rfind(b"\n")
    return first + newline + 1 if newline >= 0 or first == 0 else size
