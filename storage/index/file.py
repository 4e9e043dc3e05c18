"""The base of the offset index and the time index: a file of sorted entries of one size, without a checksum.

An index can always be rebuilt from its segment, so it needs no checksum. While its segment is active, the file has the
full size of segment.index.bytes, rounded down to whole entries, and is sparse. On roll and close it is truncated to its
true size. Entries are written with pwrite, a few at a time: a store into a sparse mapped file would kill the process
when the disk is full. Unwritten entries are in memory and a crash loses them, but the active segment's index is rebuilt
after a crash anyway. Look-ups read a few entries at a time. While the file is open they cache the last range and the
entries that every binary search visits. docs/decisions/indexes.md explains why files are not mapped.
"""

from __future__ import annotations

from struct import Struct

from storage.errors import CorruptFile
from storage.fs import FileSystem
from storage.open_files import LogFile, OpenFile, OpenFiles

_UNBOUNDED = 1 << 62
#: Entries that are buffered before they are written together.
_TAIL_ENTRIES = 32
#: Entries per read: 4 KiB of an offset index, which covers 2 MiB of records.
_WINDOW_ENTRIES = 512
#: The first levels of a binary search whose entries are cached: 6 reads saved for 63 cached entries.
_PROBED_LEVELS = 6


class IndexFile:
    """Entries of `_layout` whose fields increase from entry to entry. Not thread-safe."""

    __slots__ = (
        "_fs",
        "_full_size",
        "_grown",
        "_stale",
        "_tail",
        "_written",
        "base_offset",
        "entries",
        "file",
        "room",
    )

    _layout: Struct
    _entry_size: int
    #: Entries reserved for roll and close.
    _kept_free = 0

    def __init__(self, files: OpenFiles, path: str, base_offset: int, size_bytes: int) -> None:
        """An index whose file has `size_bytes` of entries. The file is opened on first use."""
        self._fs: FileSystem = files.fs
        self.file = LogFile(files, path, writable=True)
        self.base_offset = base_offset
        self.entries = size_bytes // self._entry_size
        self._written = self.entries
        self._full_size: int | None = None
        #: The maximum number of entries; unbounded unless the segment is active.
        self.room = _UNBOUNDED
        self._grown = False
        #: Whether the file may have bytes after the entries, because the index is being rebuilt.
        self._stale = False
        #: Buffered entries. They are bytes because all empty buffers are then one object.
        self._tail = b""

    @property
    def is_active(self) -> bool:
        return self._full_size is not None

    @property
    def size_bytes(self) -> int:
        """The size of its entries, which is the size of the file once its segment is not active."""
        return self.entries * self._entry_size

    def make_active(self, max_bytes: int) -> None:
        """Limit the number of entries. The file grows at the first entry or by `grow`."""
        self._full_size = max_bytes // self._entry_size * self._entry_size
        self.room = max_bytes // self._entry_size - self._kept_free

    def make(self) -> None:
        """Create the file of a new active segment at its full size."""
        self._fs.truncate(self.file.make().handle, self._full_size or 0)
        self._grown = True

    def grow(self) -> None:
        """Create the file if necessary and extend it to the size for an active segment."""
        self._fs.truncate(self.file.open(create=True).handle, self._full_size or 0)
        self._grown = True

    def trim(self) -> bool:
        """Write the buffered entries and truncate the file, when the segment is no longer active.

        Returns whether the file changed and must be flushed.
        """
        changed = bool(self._tail) or self._grown
        self.write_tail()
        if self._grown or self._stale:
            handle = self.file.open().handle
            if self._fs.size(handle) != self.size_bytes:
                self._fs.truncate(handle, self.size_bytes)
            self._grown = self._stale = False
        self._full_size = None
        self.room = _UNBOUNDED
        return changed

    def clear(self) -> None:
        """Remove all entries. New ones overwrite them, and `trim` truncates the rest.

        The file is not truncated first: a file system may wait for the disk when it closes such a file, and recovery
        rebuilds thousands of indexes that do not change.
        """
        opened = self.file.open(create=True)
        opened.window, opened.probes = b"", {}
        self._tail = b""
        self._written = self.entries = 0
        if not self.is_active:
            self._stale = True
            return
        self._fs.truncate(opened.handle, 0)  # old bytes must not be read as entries
        if self._grown:
            self.grow()

    def _truncate(self, entries: int) -> None:
        """Remove all but the first `entries` entries. Raises OSError, and CorruptFile if the file is missing."""
        if entries >= self._written:
            self._tail = self._tail[: (entries - self._written) * self._entry_size]
        else:
            opened = self._open()
            opened.window, opened.probes = b"", {}
            self._tail = b""
            self._written = entries
            self._fs.truncate(opened.handle, entries * self._entry_size)  # old bytes must not be read as entries
            if self._grown:
                self.grow()
        self.entries = min(entries, self.entries)

    def write_tail(self) -> None:
        """Write the buffered entries."""
        if self._tail:
            position = self._written * self._entry_size
            self._fs.write_at(self.file.open(create=True).handle, position, (self._tail,))
            self._written = self.entries
            self._tail = b""

    def close(self) -> None:
        self.file.close()

    def entry(self, number: int) -> tuple[int, int]:
        """Return the raw fields of an entry. Raises CorruptFile if the file is too short."""
        size = self._entry_size
        if number >= self._written:
            found = self._layout.unpack_from(self._tail, (number - self._written) * size)
        else:
            opened = self.file.open_file
            at = -1 if opened is None else number - opened.window_start
            if opened is not None and 0 <= at < len(opened.window) // size:
                found = self._layout.unpack_from(opened.window, at * size)
            else:
                found = self._layout.unpack(self._read(number, 1))
        return found

    def _append(self, key: int, value: int) -> None:
        if not self._grown and self._full_size is not None:
            self.grow()
        self._tail += self._layout.pack(key, value)
        self.entries += 1
        if len(self._tail) >= _TAIL_ENTRIES * self._entry_size:
            self.write_tail()

    def _open(self) -> OpenFile:
        try:
            return self.file.open()
        except FileNotFoundError:
            raise CorruptFile(self.file.path, "the index is missing") from None

    def _read(self, number: int, count: int) -> bytes:
        size = self._entry_size
        data = self._fs.pread(self._open().handle, count * size, number * size)
        if len(data) != count * size:
            raise CorruptFile(self.file.path, f"no entry {number + len(data) // size} of {self.entries}")
        return data

    def _floor(self, target: int, field: int = 0) -> int:
        """Return the number of the last entry whose `field` is at most `target`, or -1."""
        low, high = 0, self._written
        if high < self.entries and self.entry(high)[field] <= target:
            low, high = high, self.entries
            data = self._tail
            start = low
        else:
            data, start = self._window(high, target, field)
            low, high = start, start + len(data) // self._entry_size
        unpack, size = self._layout.unpack_from, self._entry_size
        while low < high:
            middle = (low + high) // 2
            if unpack(data, (middle - start) * size)[field] <= target:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _window(self, end: int, target: int, field: int) -> tuple[bytes, int]:
        """Return the range of the first `end` entries in which the search ends, and the number of its first entry.

        The cached range and the one after it are tried first, because readers move forward.
        """
        if not end:
            return b"", 0
        opened, size = self._open(), self._entry_size
        unpack, window, start = self._layout.unpack_from, opened.window, opened.window_start
        low, high = 0, end
        if window and (first := unpack(window)[field]) <= target:
            following, last = start + len(window) // size, unpack(window, len(window) - size)[field]
            if following == end or target < last:
                return window, start
            if target - last <= last - first:  # at most one range further
                low = following - 1
                high = min(low + _WINDOW_ENTRIES, end)
                window = self._read(low, high - low)
                if high == end or target < unpack(window, len(window) - size)[field]:
                    opened.window, opened.window_start = window, low
                    return window, low
                low, high = 0, end
        probes = opened.probes
        while high - low > _WINDOW_ENTRIES:
            middle = (low + high) // 2
            entry = probes.get(middle)
            if entry is None:
                entry = self._layout.unpack(self._read(middle, 1))
                if high - low > end >> _PROBED_LEVELS:
                    if len(probes) >> (_PROBED_LEVELS + 1):  # a growing index: its middle moves
                        probes.clear()
                    probes[middle] = entry
            if entry[field] <= target:
                low = middle
            else:
                high = middle
        opened.window, opened.window_start = self._read(low, high - low), low
        return opened.window, low
