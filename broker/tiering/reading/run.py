"""A run: whole batches of a remote segment, in a local file, from which fetches are served like from a segment."""

from __future__ import annotations

import os
from typing import NamedTuple

from broker.tiering.reading.batches import Marks
from protocol.records.errors import CorruptBatch
from runtime.deferred import Deferred
from storage.errors import CorruptFile
from storage.fetch_slice import EMPTY, FetchSlice
from storage.fs import FileSystem
from storage.index.transaction import AbortedTransaction
from storage.log_config import LONG_MAX
from storage.open_files import LogFile, OpenFile, OpenFiles
from storage.segment.scan import Entry, find_entry


class RunContent(NamedTuple):
    """Where a run is in its segment, and what it contains.

    It has all records of the offsets from `start_offset` to `end_offset` (exclusive), in the bytes from `position` to
    `end_position`. The last one is before `records_end_offset`: a segment may end with a gap. `data` are its bytes if
    no file could be written.
    """

    segment_id: bytes
    start_offset: int
    end_offset: int
    records_end_offset: int
    position: int
    size_bytes: int
    marks: Marks
    path: str
    data: bytes | None = None

    @property
    def end_position(self) -> int:
        """Where the next run of the segment begins."""
        return self.position + self.size_bytes


class Aborted:
    """The aborted transactions that overlap a run, as far as they are known.

    `walked_to`: the offset up to which transaction indexes were read. `is_complete`: later ones cannot have more.
    `walk`: resolves when the reading in progress has ended.
    """

    __slots__ = ("found", "is_complete", "walk", "walked_to")

    def __init__(self, walked_to: int) -> None:
        self.found: list[AbortedTransaction] = []
        self.walked_to = walked_to
        self.is_complete = False
        self.walk: Deferred[None] | None = None


class Run:
    """A run in the cache. Belongs to the event loop's thread."""

    __slots__ = ("_file", "_in_memory", "aborted", "content", "fs", "is_read_ahead")

    def __init__(self, files: OpenFiles, content: RunContent) -> None:
        self.fs: FileSystem = files.fs
        self._in_memory: OpenFile | None = None
        if content.data is not None:  # a file without a name, so that such a run is sent like any other
            handle = os.memfd_create("pybroker-remote-run", os.MFD_CLOEXEC)
            self._in_memory = OpenFile(files.fs, handle)
            files.fs.write_at(handle, 0, (content.data,))
            content = content._replace(data=None)
        self.content = content
        self._file = LogFile(files, content.path, writable=False)
        self.aborted = Aborted(content.start_offset)
        #: Whether the run behind this one was requested, because the reader comes near it.
        self.is_read_ahead = False

    @property
    def path(self) -> str:
        """The file, for worker processes."""
        return self.content.path if self._in_memory is None else f"/proc/{os.getpid()}/fd/{self._in_memory.handle}"

    @property
    def is_in_file(self) -> bool:
        return self._in_memory is None

    def open(self) -> OpenFile:
        """Return the open file. Raises OSError."""
        return self._in_memory or self._file.open()

    def close(self) -> None:
        """Release the descriptor. Slices that are being sent still hold it."""
        self._in_memory = None
        self._file.close()

    def locate(self, offset: int) -> Entry:
        """Return the first batch whose last offset is at least `offset`, which is below `records_end_offset`.

        Raises OSError, and CorruptFile if the file lacks it.
        """
        content, file = self.content, self.open()
        start = content.marks.at_or_before(offset)
        try:
            entry = find_entry(self.fs, file.handle, start, content.size_bytes, offset, LONG_MAX)
        except CorruptBatch as error:
            raise CorruptFile(content.path, str(error)) from error
        if entry is None:
            raise CorruptFile(content.path, f"lacks offset {offset}")
        return entry

    def read(self, offset: int, max_bytes: int, min_one_batch: bool) -> FetchSlice | bytes:
        """Return the batches from the one that contains `offset`, like `LocalLog.read`. Raises as `locate`."""
        content, entry, file = self.content, self.locate(offset), self.open()
        size = min(max_bytes, content.size_bytes - entry.position)
        if size < entry.size_bytes:
            if not min_one_batch:
                return EMPTY
            size = entry.size_bytes
        return FetchSlice(self.fs, file, entry.position, size)

    def offset_after(self, part: FetchSlice) -> int:
        """Return an offset above all in `part`, a result of `read`."""
        after = self.content.marks.offset_after(part.position + part.size)
        return self.content.end_offset if after is None else after
