"""Read a segment file as Apache Kafka's readers do, which are less strict than recovery.

An entry (a batch or an old message) needs 17 bytes to be recognized. An entry that extends beyond the file ends the
walk. Checksums and unknown magic numbers are not checked. A length below 14 bytes raises DumpFailed.
The reader reads a megabyte at a time, and longer entries one by one.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from protocol.records.batch import CRC_START, HEADER_SIZE, LOG_OVERHEAD, MAGIC_OFFSET, MIN_ENTRY_LENGTH
from protocol.records.crc32c import crc32c
from tools.errors import DumpFailed

_WINDOW = 1 << 20
_START = Struct(">qi4xb")
_STORED = Struct(">I")


class RawEntry(NamedTuple):
    """A batch or an old message in a file; `head` is 61 bytes from its position on, fewer at the end of the file."""

    position: int
    size_bytes: int
    offset: int
    magic: int
    head: memoryview


class LogReader:
    """A segment file that is open for reading. Raises OSError if it cannot be opened."""

    def __init__(self, path: str) -> None:
        self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size_bytes = os.fstat(self._handle).st_size
        self._window = memoryview(b"")
        self._start = 0

    def __enter__(self) -> LogReader:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)

    def read(self, position: int, size: int) -> memoryview:
        """Return `size` bytes from `position` on, fewer at the end of the file."""
        at = position - self._start
        if at < 0 or at + size > len(self._window):
            self._window = memoryview(
                os.pread(self._handle, max(size, min(_WINDOW, self.size_bytes - position)), position)
            )
            self._start, at = position, 0
        return self._window[at : at + size]

    def entries(self, position: int = 0, end: int | None = None) -> Iterator[RawEntry]:
        """Yield the entries from `position` on that end at or before `end`. Raises DumpFailed for an invalid length."""
        end = self.size_bytes if end is None else min(end, self.size_bytes)
        while position + MAGIC_OFFSET + 1 < end:
            head = self.read(position, HEADER_SIZE)
            offset, length, magic = _START.unpack_from(head)
            if length < MIN_ENTRY_LENGTH:
                raise DumpFailed(f"an entry at position {position} cannot have {length} bytes")
            size = length + LOG_OVERHEAD
            if position + size > end:
                return
            yield RawEntry(position, size, offset, magic, head)
            position += size

    def checksum(self, entry: RawEntry) -> tuple[int, bool]:
        """Return the checksum that the entry carries, and whether it is correct."""
        function: Callable[[memoryview, int], int]
        if entry.magic >= 2:
            at, function, stored_at = CRC_START, crc32c, MAGIC_OFFSET + 1
        else:
            at, function, stored_at = MAGIC_OFFSET, zlib.crc32, LOG_OVERHEAD
        stored: int = _STORED.unpack_from(entry.head, stored_at)[0]
        value = 0
        while at < entry.size_bytes:
            piece = self.read(entry.position + at, min(_WINDOW, entry.size_bytes - at))
            if not piece:
                return stored, False
            value = function(piece, value)
            at += len(piece)
        return stored, value == stored and (entry.magic < 2 or entry.size_bytes >= HEADER_SIZE)

    def whole(self, entry: RawEntry) -> memoryview:
        """Return all bytes of an entry."""
        return self.read(entry.position, entry.size_bytes)
