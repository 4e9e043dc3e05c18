"""Segments in remote storage as the files of a partition's directory, for a StoredLog.

A directory on the disk may have the newer segments. Then remote segments count before its first one only.
"""

from __future__ import annotations

import os.path
from itertools import count

from remote.segment_files import IndexKind
from remote.stored_copies import StoredCopy, StoredPartition
from storage.fs import LOCAL, FileSystem
from storage.segment.files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
    parse_file_name,
)

#: The first range of a file is small, since many readers need one batch; each range that follows it is twice as long.
_FIRST_BYTES, _MOST_BYTES = 256 << 10, 8 << 20
_INDEXES = {
    INDEX_SUFFIX: IndexKind.OFFSET,
    TIME_INDEX_SUFFIX: IndexKind.TIMESTAMP,
    TXN_INDEX_SUFFIX: IndexKind.TRANSACTION,
}


class RemoteFiles(FileSystem):
    """The files of one partition. All methods raise the errors of remote storage, and OSError."""

    def __init__(self, remote: StoredPartition, directory: str | None = None) -> None:
        self._remote = remote
        self._directory = directory
        self._local = set() if directory is None else set(LOCAL.names(directory))
        parsed = (parse_file_name(name) for name in self._local)
        begun = min((offset for offset, suffix in filter(None, parsed) if suffix == LOG_SUFFIX), default=None)
        self._copies = {
            copy.segment.start_offset: copy
            for copy in remote.copies
            if begun is None or copy.segment.start_offset < begun
        }
        self._handles = count(-1, -1)
        self._open: dict[int, _RemoteLog] = {}

    # ---- names

    def names(self, path: str) -> list[str]:
        names = [] if self._directory is None else list(LOCAL.names(path))
        for start, copy in self._copies.items():
            names += (file_name(start, suffix) for suffix in (LOG_SUFFIX, *_INDEXES))
            if copy.segment.end_offset >= 0:
                names.append(file_name(copy.segment.end_offset + 1, SNAPSHOT_SUFFIX))
        return list(dict.fromkeys(names))

    def exists(self, path: str) -> bool:
        return self._remote_file(path) is not None or (self._directory is not None and LOCAL.exists(path))

    # ---- files that are read as a whole

    def read_file(self, path: str, most_bytes: int = 64 << 20) -> bytes:
        found = self._remote_file(path)
        if found is None:
            self._check_directory(path)
            return LOCAL.read_file(path, most_bytes)
        copy, suffix = found
        if suffix == LOG_SUFFIX:
            return self._remote.layout.read(self._remote.partition, copy.segment, 0, copy.segment.size_bytes)
        kind = _INDEXES.get(suffix, IndexKind.PRODUCER_SNAPSHOT)
        return self._remote.layout.read_index(self._remote.partition, copy.segment, kind) or b""

    # ---- files that are read by position

    def open_read(self, path: str) -> int:
        found = self._remote_file(path)
        if found is None:
            self._check_directory(path)
            return LOCAL.open_read(path)
        handle = next(self._handles)
        self._open[handle] = _RemoteLog(self._remote, found[0])
        return handle

    def close(self, handle: int) -> None:
        if handle < 0:
            del self._open[handle]
        else:
            LOCAL.close(handle)

    def size(self, handle: int) -> int:
        return self._open[handle].size_bytes if handle < 0 else LOCAL.size(handle)

    def pread(self, handle: int, size: int, position: int) -> bytes:
        return self._open[handle].read(position, size) if handle < 0 else LOCAL.pread(handle, size, position)

    def read_into(self, handle: int, buffer: bytearray | memoryview, position: int) -> int:
        if handle >= 0:
            return LOCAL.read_into(handle, buffer, position)
        data = self._open[handle].read(position, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    # ---- internals

    def _remote_file(self, path: str) -> tuple[StoredCopy, str] | None:
        """Return the copy that a path means, and the suffix of its file; None for a file on the disk."""
        name = os.path.basename(path)
        parsed = parse_file_name(name)
        if parsed is None or name in self._local:
            return None
        offset, suffix = parsed
        if suffix == SNAPSHOT_SUFFIX:
            ended = (each for each in self._copies.values() if each.segment.end_offset + 1 == offset)
            copy = next(ended, None)
        else:
            copy = self._copies.get(offset)
        return None if copy is None else (copy, suffix)

    def _check_directory(self, path: str) -> None:
        if self._directory is None:
            raise FileNotFoundError(path)


class _RemoteLog:
    """The records of a copy, by ranges that are longer while they are read in order."""

    def __init__(self, remote: StoredPartition, copy: StoredCopy) -> None:
        self._remote = remote
        self._segment = copy.segment
        self.size_bytes = copy.segment.size_bytes
        self._start = 0
        self._data = b""
        self._next_bytes = _FIRST_BYTES

    def read(self, position: int, size: int) -> bytes:
        """Return bytes of the file; fewer at its end."""
        size = max(0, min(size, self.size_bytes - position))
        if not self._start <= position or position + size > self._start + len(self._data):
            self._fetch(position, size)
        return self._data[position - self._start : position - self._start + size]

    def _fetch(self, position: int, size: int) -> None:
        follows = self._start <= position <= self._start + len(self._data) and self._data
        self._next_bytes = min(_MOST_BYTES, self._next_bytes * 2) if follows else _FIRST_BYTES
        wanted = min(max(size, self._next_bytes), self.size_bytes - position)
        self._data = self._remote.layout.read(self._remote.partition, self._segment, position, wanted)
        self._start = position
