"""Open files: who holds a descriptor, and how many are open at once.

Rule H1 (README): a descriptor is closed when its last holder releases it, never before. The holders are this cache and
every `FetchSlice` that is being sent. All of them hold the `OpenFile` object, so Python's reference count decides. A
response therefore never reads from a descriptor number that was reused for another file. The cache is bounded, because
thousands of partitions with three files per segment would exhaust the descriptors of the process.
"""

from __future__ import annotations

import errno
from collections import OrderedDict
from contextlib import suppress

from storage.fs import FileSystem
from storage.position_cache import PositionCache

#: The process or the machine has no free descriptor. The disk is not at fault.
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
#: The default number of open files of a broker. Linux allows a process 1024 by default, and sockets need some.
DEFAULT_CAPACITY = 512


class OpenFile:
    """A descriptor that stays open while this object is referenced, with the state that its readers cache."""

    __slots__ = (
        "_fs",
        "cached",
        "handle",
        "positions",
        "probes",
        "reports_cached",
        "unread",
        "window",
        "window_start",
    )

    def __init__(self, fs: FileSystem, handle: int) -> None:
        self._fs = fs
        self.handle = handle
        #: False once the file system has not reported whether a page is cached.
        self.reports_cached = True
        #: By block: the position from which on it is in the page cache, and until when that is valid (see FetchSlice).
        self.cached: dict[int, tuple[int, int]] = {}
        #: Pages that were not cached when queried, and were not read since together with their neighbours (see
        #: FetchSlice).
        self.unread: set[int] = set()
        #: The range of an index that was read last, and the number of its first entry.
        self.window = b""
        self.window_start = 0
        #: The positions at which readers of the records continue.
        self.positions: PositionCache | None = None
        #: Entries by number that every search visits.
        self.probes: dict[int, tuple[int, int]] = {}

    def __del__(self) -> None:
        with suppress(OSError):  # it loses nothing: data that must be on the disk was flushed before
            self._fs.close(self.handle)

    def fileno(self) -> int:
        return self.handle


class LogFile:
    """A file of a log, opened on use and closed when other files need its descriptor.

    `open_file` is None while it is closed. Writers and readers call `open()`.
    """

    __slots__ = ("_files", "open_file", "path", "used", "writable")

    def __init__(self, files: OpenFiles, path: str, *, writable: bool) -> None:
        self._files = files
        self.path = path
        self.writable = writable
        self.open_file: OpenFile | None = None
        self.used = True

    def open(self, *, create: bool = False) -> OpenFile:
        """Return the open file. Raises OSError if it cannot be opened."""
        self.used = True
        return self.open_file or self._files.open(self, create=create)

    def make(self) -> OpenFile:
        """Create the file empty."""
        self.close()
        return self._files.open(self, empty=True)

    def hold(self) -> None:
        """Open the file and keep it open, beyond the limit, until it is renamed (`moved`) or closed."""
        self.open()
        self._files.forget(self)

    def moved(self, path: str) -> None:
        """Set the new path after a rename. The descriptor is released; the next use opens the file by the new name."""
        self.path = path
        self.close()

    def close(self) -> None:
        """Release the descriptor. Slices that are being sent still hold it."""
        self.open_file = None
        self._files.forget(self)


class OpenFiles:
    """A bounded set of open files. It evicts a file that was not used since it was last considered for eviction."""

    __slots__ = ("_held", "capacity", "fs")

    def __init__(self, fs: FileSystem, capacity: int = DEFAULT_CAPACITY) -> None:
        self.fs = fs
        self.capacity = capacity
        self._held: OrderedDict[LogFile, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def open(self, file: LogFile, *, create: bool = False, empty: bool = False) -> OpenFile:
        while len(self._held) >= self.capacity:
            self._make_room()
        try:
            handle = self._handle(file, create, empty)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                raise
            while self._held:  # The process has no free descriptor: close all that are only cached.
                self._held.popitem()[0].open_file = None
            handle = self._handle(file, create, empty)
        opened = file.open_file = OpenFile(self.fs, handle)
        self._held[file] = None
        return opened

    def _handle(self, file: LogFile, create: bool, empty: bool) -> int:
        if file.writable:
            return self.fs.open_write(file.path, create=create, empty=empty)
        return self.fs.open_read(file.path)

    def forget(self, file: LogFile) -> None:
        self._held.pop(file, None)

    def _make_room(self) -> None:
        while True:  # Ends in the second pass at the latest, because every `used` flag is cleared by then.
            file, _ = self._held.popitem(last=False)
            if not file.used:
                file.open_file = None
                return
            file.used = False
            self._held[file] = None
