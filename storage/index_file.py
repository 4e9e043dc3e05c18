"""What the offset index and the time index have in common: a file of entries of one size, sorted, with no checksum.

An index can always be made anew from its segment, so it has none. While its segment is active the file has the full
size of segment.index.bytes, rounded down to whole entries and sparse; it is cut to its true size on roll and close.
Entries are written with pwrite, a few at a time: a store into a sparse mapped file on a full disk would kill the
process. Those not written yet are kept here, and a crash loses them, after which the active segment's index is made
anew in any case. Look-ups read a few entries at a time and remember the last piece.
"""

from __future__ import annotations

from struct import Struct

from storage.errors import CorruptFile
from storage.fs import FileSystem
from storage.open_files import LogFile, OpenFiles

_UNBOUNDED = 1 << 62
#: Entries kept back before they are written together.
_TAIL_ENTRIES = 32
#: Entries read together: 4 KiB of an offset index, which cover 2 MiB of records.
_WINDOW_ENTRIES = 512


class IndexFile:
    """Entries of `_layout`, whose fields all grow from entry to entry. Not for use by two threads."""

    __slots__ = (
        "_fs",
        "_full_size",
        "_grown",
        "_tail",
        "_window",
        "_window_start",
        "_written",
        "base_offset",
        "entries",
        "file",
        "room",
    )

    _layout: Struct
    _entry_size: int
    #: Entries that only roll and close may use.
    _kept_free = 0

    def __init__(self, files: OpenFiles, path: str, base_offset: int, size_bytes: int) -> None:
        """An index whose file has `size_bytes`, all of them entries; it is opened when it is needed."""
        self._fs: FileSystem = files.fs
        self.file = LogFile(files, path, writable=True)
        self.base_offset = base_offset
        self.entries = size_bytes // self._entry_size
        self._written = self.entries
        self._full_size: int | None = None
        #: How many entries appends may make it have; no bound but on an active segment.
        self.room = _UNBOUNDED
        self._grown = False
        self._tail = bytearray()
        self._window = b""
        self._window_start = 0

    @property
    def is_active(self) -> bool:
        return self._full_size is not None

    def make_active(self, max_bytes: int) -> None:
        """Bound the index. The file grows when the first entry comes, or by `grow`."""
        self._full_size = max_bytes // self._entry_size * self._entry_size
        self.room = max_bytes // self._entry_size - self._kept_free

    def make(self) -> None:
        """Make the file of a new active segment, at its full size."""
        self._fs.truncate(self.file.make().handle, self._full_size or 0)
        self._grown = True

    def grow(self) -> None:
        """Make the file if need be, and give it the size it has while its segment is active."""
        self._fs.truncate(self.file.open(create=True).handle, self._full_size or 0)
        self._grown = True

    def trim(self) -> None:
        """Write what is kept back and cut the file to its entries: the segment is not active any more."""
        self.write_tail()
        if self._grown:
            self._fs.truncate(self.file.open().handle, self.entries * self._entry_size)
            self._grown = False
        self._full_size = None
        self.room = _UNBOUNDED

    def cut(self, entries: int) -> None:
        """Keep the first `entries` only."""
        handle = self.file.open(create=True).handle
        self._tail = self._tail[: max(0, entries - self._written) * self._entry_size]
        self._written = min(self._written, entries)
        self.entries = entries
        self._window = b""
        self._fs.truncate(handle, self._written * self._entry_size)  # what lay there must not be read as entries
        if self._grown:
            self.grow()

    def write_tail(self) -> None:
        """Write the entries that are kept back."""
        if self._tail:
            position = self._written * self._entry_size
            self._fs.write_at(self.file.open(create=True).handle, position, (self._tail,))
            self._written = self.entries
            self._tail = bytearray()

    def close(self) -> None:
        self.file.close()

    def entry(self, number: int) -> tuple[int, int]:
        """The entry as it is written. CorruptFile where the file does not have it."""
        size = self._entry_size
        if number >= self._written:
            found = self._layout.unpack_from(self._tail, (number - self._written) * size)
        else:
            at = number - self._window_start
            if 0 <= at < len(self._window) // size:
                found = self._layout.unpack_from(self._window, at * size)
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

    def _read(self, number: int, count: int) -> bytes:
        size = self._entry_size
        try:
            data = self._fs.pread(self.file.open().handle, count * size, number * size)
        except FileNotFoundError:
            raise CorruptFile(self.file.path, "the index is missing") from None
        if len(data) != count * size:
            raise CorruptFile(self.file.path, f"no entry {number + len(data) // size} of {self.entries}")
        return data

    def _floor(self, target: int, field: int = 0) -> int:
        """The number of the last entry whose `field` is not above `target`, -1 where there is none."""
        low, high = 0, self._written
        if high < self.entries and self._tail_field(high, field) <= target:
            low, high = high, self.entries
        else:
            window_end = self._window_start + len(self._window) // self._entry_size
            if (
                self._window
                and self.entry(self._window_start)[field] <= target
                and (window_end == high or target < self.entry(window_end - 1)[field])
            ):
                low, high = self._window_start, window_end
            else:
                low, high = self._narrow(low, high, target, field)
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle)[field] <= target:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def _tail_field(self, number: int, field: int) -> int:
        return self.entry(number)[field]

    def _narrow(self, low: int, high: int, target: int, field: int) -> tuple[int, int]:
        """Search until one piece is left, and read that piece."""
        while high - low > _WINDOW_ENTRIES:
            middle = (low + high) // 2
            if self._layout.unpack(self._read(middle, 1))[field] <= target:
                low = middle
            else:
                high = middle
        if high > low:
            self._window = self._read(low, high - low)
            self._window_start = low
        return low, high
