"""The records of a segment as they are in its files: look-ups by the indexes, and rebuilding the indexes.

It reads the files on demand and caches what it has read, so a broker with many partitions starts without opening them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

from protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD, NO_TIMESTAMP
from protocol.records.errors import CorruptBatch
from storage.errors import CorruptFile
from storage.index.time import TimestampOffset
from storage.log_config import INT_MAX, LONG_MAX, LogConfig
from storage.open_files import OpenFile, OpenFiles
from storage.position_cache import BatchPosition, PositionCache
from storage.segment.files import LOG_SUFFIX, SegmentFiles
from storage.segment.scan import FRONT, Entry, find_entry, scan_entries

#: If the latest batch is within this distance of the end of the segment, all batches after it are compared with the
#: time index.
_NEAR_BYTES = 1 << 20

_new_tuple = tuple.__new__


class IndexedSegment(SegmentFiles):
    """The files of one base offset.

    `size_bytes` is the size of the records; `created_ms` is when the segment was created.
    """

    __slots__ = (
        "_bytes_since_index_entry",
        "_largest",
        "_preallocated",
        "_rebuilt",
        "_rolling_timestamp",
        "created_ms",
        "index_interval_bytes",
        "roll_jitter_ms",
        "size_bytes",
    )

    def __init__(
        self,
        files: OpenFiles,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        created_ms: int,
        roll_jitter_ms: int = 0,
        sizes: dict[str, int] | None = None,
        suffix: str = "",
    ) -> None:
        """`sizes` has the sizes of the existing files, by suffix. A time index that is not in it is not searched for.

        `suffix` is appended to the names of files that are not in place yet.
        """
        sizes = sizes or {}
        super().__init__(files, directory, base_offset, sizes, suffix)
        self.created_ms = created_ms
        self._preallocated = False
        self.roll_jitter_ms = roll_jitter_ms
        self.index_interval_bytes = config.index_interval_bytes
        self.size_bytes = sizes.get(LOG_SUFFIX, 0)
        #: The largest timestamp and the last offset of the first batch with it; None: read the time index.
        self._largest: TimestampOffset | None = None
        #: The largest timestamp of the first batch, from which segment.ms counts; None: not read yet.
        self._rolling_timestamp: int | None = None
        self._bytes_since_index_entry = 0
        #: Whether the indexes were rebuilt once. If they still contradict the records, the records are wrong.
        self._rebuilt = False

    def __repr__(self) -> str:
        return f"Segment(base_offset={self.base_offset}, size_bytes={self.size_bytes})"

    # -- look-ups ----------------------------------------------------------------------------------------------------

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch; -1 if it has none or the segment is empty."""
        if self._rolling_timestamp is None:
            self._rolling_timestamp = self._first_batch_timestamp()
        return self._rolling_timestamp

    def _first_batch_timestamp(self) -> int:
        for entry in self.scan(0):
            return entry.max_timestamp
        return NO_TIMESTAMP

    @property
    def largest(self) -> TimestampOffset:
        """The largest timestamp and the last offset of the first batch with it; (-1, base offset) if there is none."""
        if self._largest is None:
            self._largest = self._checked_largest()
        return self._largest

    @property
    def has_cached_largest(self) -> bool:
        """Whether `largest` is cached, so that no file has to be read."""
        return self._largest is not None

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp; the file's modification time if the records have no timestamps."""
        timestamp = self.largest.timestamp
        return timestamp if timestamp >= 0 else self._fs.modified_ms(self.log.open().handle)

    def scan(self, position: int) -> Iterator[Entry]:
        """Yield the batches from `position` on, by their headers."""
        file = self.log.open()  # held until the scan ends (rule H1), because the file cache may evict it meanwhile
        yield from scan_entries(self._fs, file.handle, position, self.size_bytes)

    def batch_position(self, offset: int) -> BatchPosition | None:
        """Return the position of the batch that `find` returns. For consumers, whose positions are cached."""
        log = self.log
        file = log.open_file or log.open()
        cache = file.positions
        if cache is None:
            cache = file.positions = PositionCache()
        known = cache.get(offset)
        if type(known) is BatchPosition:
            return known
        if type(known) is int and (following := self._batch_at(file, cache, known, offset)) is not None:
            return following
        found = self.find(offset)
        if found is None:
            return None
        batch = _new_tuple(BatchPosition, (found.base_offset, found.position, found.position + found.size_bytes))
        return cache.put(offset, batch, found.last_offset + 1)

    def _batch_at(self, file: OpenFile, cache: PositionCache, position: int, offset: int) -> BatchPosition | None:
        """Return the batch v2 at `position` if it begins with `offset`; None at a gap or at the end."""
        front = self._fs.pread(file.handle, HEADER_SIZE, position)
        if len(front) < HEADER_SIZE:
            return None
        base_offset, length, magic, last_offset_delta = FRONT.unpack_from(front)
        end = position + length + LOG_OVERHEAD
        if base_offset != offset or magic != 2 or length < HEADER_SIZE - LOG_OVERHEAD or end > self.size_bytes:
            return None
        return cache.put(offset, _new_tuple(BatchPosition, (offset, position, end)), offset + last_offset_delta + 1)

    def find(self, offset: int) -> Entry | None:
        """Return the first batch whose last offset is at least `offset`, or None."""
        while True:
            try:
                start = self.offset_index.look_up(offset)
                limit = start.offset if start.position else LONG_MAX
                if start.position < self.size_bytes:
                    handle = (self.log.open_file or self.log.open()).handle
                    return find_entry(self._fs, handle, start.position, self.size_bytes, offset, limit)
                if not start.position:
                    return None
            except (CorruptFile, CorruptBatch):
                if self._rebuilt:
                    raise
            self.rebuild_indexes()

    def scan_from_timestamp(self, timestamp: int, offset: int = 0) -> Iterator[Entry]:
        """Yield batches from a little before the first one that can match.

        It has a largest timestamp of at least `timestamp` and does not end below `offset`.
        """
        start = self._trusted_time_index_entry(timestamp)
        if start.timestamp >= 0:
            offset = max(offset, start.offset)
        return self._scan_from_index(offset) if offset > self.base_offset else self.scan(0)

    def next_offset(self) -> int:
        """Return the offset after the last batch; the base offset in an empty segment.

        Raises CorruptBatch if that offset is impossible or bytes follow the last batch.
        """
        end, end_position = self.base_offset, 0
        for last in deque(self._scan_from_index(None), maxlen=1) if self.size_bytes else ():
            end, end_position = last.last_offset + 1, last.position + last.size_bytes
        if not 0 <= end - self.base_offset <= INT_MAX + 1 or end_position != self.size_bytes:
            raise CorruptBatch(f"the last batch ends at offset {end}, and at byte {end_position} of {self.size_bytes}")
        return end

    # Rule R6 (README): an index entry is used only if the batch it points at confirms it; otherwise the index is
    # rebuilt.

    def _scan_from_index(self, offset: int | None) -> Iterator[Entry]:
        """Yield the batches from the index entry at or before `offset` on; None means the last index entry."""
        try:
            start = self.offset_index.last() if offset is None else self.offset_index.look_up(offset)
            if not start.position:
                return self.scan(0)
            entries = self.scan(start.position)
            first = next(entries, None)
            if first is not None and self.base_offset <= first.base_offset <= start.offset:
                return chain((first,), entries)
        except (CorruptFile, CorruptBatch):
            if self._rebuilt:
                raise
        if self._rebuilt:
            raise CorruptBatch(f"{self.log.path}: offsets go back, so that no index can lead to any")
        self.rebuild_indexes()
        return self._scan_from_index(offset)

    def _trusted_time_index_entry(self, timestamp: int) -> TimestampOffset:
        """Return the last valid entry that is not later than `timestamp`; (-1, base offset) if there is none."""
        try:
            start = self.time_index.look_up(timestamp)
            if self._confirms(start):
                return start
            if self._rebuilt:
                return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        except CorruptFile:
            if self._rebuilt:
                raise
        self.rebuild_indexes()
        return self._trusted_time_index_entry(timestamp)

    def _confirms(self, claim: TimestampOffset) -> bool:
        """Return whether the batch with that offset has that largest timestamp. An empty entry is always confirmed."""
        if claim.timestamp < 0:
            return True
        entry = self.find(claim.offset)
        return entry is not None and entry.max_timestamp == claim.timestamp

    def _checked_largest(self) -> TimestampOffset:
        """Return the last entry of the time index, if its batch confirms it and no later batch contradicts it.

        Otherwise rebuild the indexes.
        """
        try:
            largest = self.time_index.last()
            if self._confirms(largest) and largest.timestamp >= max(self._later_timestamps(largest), default=-1):
                return largest
        except CorruptFile:
            pass
        return self.rebuild_indexes()

    def _later_timestamps(self, largest: TimestampOffset) -> Iterator[int]:
        """Yield the timestamps of the batches from `largest` on if it is near the end, else of the last few batches."""
        first = self.find(largest.offset) if largest.timestamp >= 0 else next(self.scan(0), None)
        near = first is not None and self.size_bytes - first.position <= _NEAR_BYTES
        entries = self.scan(first.position) if first is not None and near else self._scan_from_index(None)
        return (entry.max_timestamp for entry in entries)

    # -- rebuilding --------------------------------------------------------------------------------------------------

    def become_inactive(self) -> list[str]:
        """Complete the indexes and truncate all files to their true sizes, on roll and close.

        Returns the paths of the indexes that changed.
        """
        if self._largest is not None:
            self.time_index.maybe_append(*self._largest)
        changed = [index.file.path for index in (self.offset_index, self.time_index) if index.trim()]
        if self._preallocated:
            self.undo_append()
            self._preallocated = False
        return changed

    def undo_append(self) -> None:
        """Truncate what a failed append may have left beyond the end."""
        self._fs.truncate(self.log.open().handle, self.size_bytes)

    def rebuild_indexes(self) -> TimestampOffset:
        """Rebuild the offset and time index from the records, by the same rule as appends. Return the largest
        timestamp.
        """
        self._rebuilt = True
        self.begin_rebuild()
        with suppress(CorruptBatch):  # batches after a corrupt one cannot be found in any case
            for entry in self.scan(0):
                if not 0 <= entry.last_offset - self.base_offset <= INT_MAX:
                    break
                self.index_entry(entry)
        if not self.is_active:
            self.become_inactive()
        return self.largest

    def begin_rebuild(self) -> None:
        self.offset_index.clear()
        self.time_index.clear()
        self._largest = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        self._bytes_since_index_entry = 0

    def index_entry(self, entry: Entry) -> None:
        """Index the next batch of a segment whose indexes are being rebuilt."""
        self.index_batch(entry.position, entry.size_bytes, entry.last_offset, entry.max_timestamp)

    def index_batch(self, position: int, size_bytes: int, last_offset: int, max_timestamp: int) -> None:
        """Index a batch by its values, by the same rule as `append`."""
        largest = self._largest or self.largest
        if max_timestamp > largest[0]:
            largest = self._largest = _new_tuple(TimestampOffset, (max_timestamp, last_offset))
        if self._bytes_since_index_entry > self.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(*largest)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += size_bytes

    def end_rebuild(self, size_bytes: int) -> None:
        """Truncate the records at `size_bytes`, and the indexes to their entries."""
        if self.log.open_file is not None:
            self.log.open_file.positions = None
        if size_bytes < self.size_bytes:
            self.size_bytes = size_bytes
            self.undo_append()
        self.become_inactive()
        self._bytes_since_index_entry = 0
