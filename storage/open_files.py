"""Open files: who holds a descriptor, and how many are held at once.

Rule H1 (README): a descriptor is closed when its last holder lets go, never before. The holders are the cache here
and every `FetchSlice` that is still being sent; both hold the `OpenFile`, and Python's own reference count is the
count. So a closed descriptor can never be reused by another file underneath a response.
The cache is bounded, since thousands of partitions with three files a segment would exhaust the process.
"""

from __future__ import annotations

import errno
from collections import OrderedDict
from contextlib import suppress

from storage.fs import FileSystem
from storage.position_cache import Places

#: The process, or the machine, has no descriptor left: no fault of the disk.
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
#: Open files of one broker, unless it says otherwise; Linux gives a process 1024 by default, sockets take theirs.
DEFAULT_CAPACITY = 512


class OpenFile:
    """A descriptor, open as long as anything refers to this object. What its readers remember is kept here, too."""

    __slots__ = (
        "_fs",
        "cached",
        "handle",
        "places",
        "probes",
        "tells_cached",
        "unread",
        "window",
        "window_start",
    )

    def __init__(self, fs: FileSystem, handle: int) -> None:
        self._fs = fs
        self.handle = handle
        #: False once its file system would not say what of it is cached.
        self.tells_cached = True
        #: From which position on a block is in the page cache, and until when that is believed (see FetchSlice).
        self.cached: dict[int, tuple[int, int]] = {}
        #: Pages that were not in the page cache when they were asked about, and that nobody has read since with those
        #: around them (see FetchSlice).
        self.unread: set[int] = set()
        #: The piece of an index that was read last, and the number of its first entry.
        self.window = b""
        self.window_start = 0
        #: Where readers of the records are.
        self.places: Places | None = None
        #: Entries by number that every search comes past.
        self.probes: dict[int, tuple[int, int]] = {}

    def __del__(self) -> None:
        with suppress(OSError):  # nothing is lost by it: what has to be on the disk is forced there before
            self._fs.close(self.handle)

    def fileno(self) -> int:
        return self.handle


class LogFile:
    """A file of a log by path, opened when it is used, and closed unasked when other files need the room.

    `open_file` is None while closed. Writers and readers go through `open()`.
    """

    __slots__ = ("_files", "open_file", "path", "used", "writable")

    def __init__(self, files: OpenFiles, path: str, *, writable: bool) -> None:
        self._files = files
        self.path = path
        self.writable = writable
        self.open_file: OpenFile | None = None
        self.used = True

    def open(self, *, create: bool = False) -> OpenFile:
        """The open file; OSError where it cannot be opened."""
        self.used = True
        return self.open_file or self._files.open(self, create=create)

    def make(self) -> OpenFile:
        """Make the file, empty."""
        self.close()
        return self._files.open(self, empty=True)

    def hold(self) -> None:
        """Open it, and keep it open beyond the bound until it is `moved` or closed: its name is about to change."""
        self.open()
        self._files.forget(self)

    def moved(self, path: str) -> None:
        """The file is called `path` now; what was held is opened by that name when it is needed next."""
        self.path = path
        self.close()

    def close(self) -> None:
        """Let go of the descriptor; slices that are being sent still hold it."""
        self.open_file = None
        self._files.forget(self)


class OpenFiles:
    """A bounded set of open files. Room is made by closing one that was not used since it was last considered."""

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
            while self._held:  # the process has none left for anyone: give up all that are only kept for later
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
        while True:  # ends in the second round at the latest: by then none counts as used
            file, _ = self._held.popitem(last=False)
            if not file.used:
                file.open_file = None
                return
            file.used = False
            self._held[file] = None
