"""A partition's directory on a disk: read, never written or locked, also while a broker writes to it.

The log ends before the first incomplete or corrupt batch of its last segment: recovery would truncate there, or a
broker is writing there now. Anywhere else, such a batch is DamagedLog.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from protocol.records.entries import iter_records
from protocol.records.errors import CorruptBatch, RecordsError
from pybroker.isolated.stored_index import OFFSET_LAYOUT, TIME_LAYOUT, StoredIndex
from pybroker.source.errors import DamagedLog, DataLoss, UnusableOption
from storage.checkpoints import LOG_START_OFFSETS, read_offsets
from storage.directory_names import DirectoryKind, parse_name
from storage.fs import LOCAL, FileSystem
from storage.index.transaction import AbortedTransaction, TransactionIndex
from storage.log_config import LONG_MAX
from storage.open_files import OpenFiles
from storage.producers.snapshot import snapshot_path
from storage.segment.files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
    parse_file_name,
)
from storage.segment.scan import Entry, find_entry, has_right_checksum, scan_entries, scan_whole


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment: offsets from `base_offset` up to `end_offset`, which is None for the last segment."""

    base_offset: int
    end_offset: int | None


class StoredLog:
    """One partition's directory. All methods raise DamagedLog, DataLoss if files are deleted meanwhile, OSError."""

    def __init__(self, directory: str, fs: FileSystem = LOCAL) -> None:
        """Open it. Errors: UnusableOption if `directory` is not named TOPIC-PARTITION; DamagedLog without a log."""
        self.directory = os.path.abspath(directory)
        kind, self.topic, self.partition = parse_name(os.path.basename(self.directory))
        if kind is not DirectoryKind.PARTITION:
            raise UnusableOption(f"{directory} is not named TOPIC-PARTITION, so it is not a partition's directory")
        self._fs = self.fs = fs
        self._names: set[str] = set()
        self.segments: list[StoredSegment] = []
        self.snapshots: list[int] = []
        self._look()

    def _look(self) -> None:
        """List the files again."""
        self._names = self._listed()
        base_offsets, snapshots = [], []
        for name in self._names:
            parsed = parse_file_name(name)
            if parsed is None:
                continue
            offset, suffix = parsed
            if suffix == LOG_SUFFIX:
                base_offsets.append(offset)
            elif suffix == SNAPSHOT_SUFFIX:
                snapshots.append(offset)
            elif suffix == LOG_SUFFIX + SWAP_SUFFIX:
                raise DamagedLog(f"{self.directory}: {name} is about to replace a segment")
        if not base_offsets:
            raise DamagedLog(f"{self.directory}: it has no segment")
        base_offsets.sort()
        self.segments = [
            StoredSegment(base, behind) for base, behind in zip(base_offsets, [*base_offsets[1:], None], strict=True)
        ]
        self.snapshots = sorted(snapshots)

    def _listed(self) -> set[str]:
        """Return the names in the directory, once two listings agree.

        One listing may miss a file that is created meanwhile, and contain later ones: a segment would be missing.
        """
        names = set(self._fs.names(self.directory))
        while (again := set(self._fs.names(self.directory))) != names:
            names = again
        return names

    # ---- first and last offset

    def start_offset(self) -> int:
        """Return the log start offset: DeleteRecords moves it beyond the first segment's base offset."""
        checkpoint = f"{os.path.dirname(self.directory)}/{LOG_START_OFFSETS}"
        deleted = read_offsets(self._fs, checkpoint).get((self.topic, self.partition), 0)
        return max(self.segments[0].base_offset, deleted)

    def end_offset(self) -> int:
        """Return the log end offset."""
        last = self.segments[-1]
        end = last.base_offset
        with self._opened(last) as (handle, size):
            position = self._position(last, handle, size, None)
            try:
                for entry, batch in scan_whole(self._fs, handle, position, size):
                    if entry.last_offset < end or not has_right_checksum(self._fs, handle, entry, batch):
                        break
                    end = entry.last_offset + 1
            except CorruptBatch:  # zeros of a preallocated file, or the rest of a crash
                pass
        return end

    # ---- reading

    def read(self, start: int, end: int) -> Iterator[memoryview]:
        """Yield the whole entries with any record in [start, end), in order. Each is valid until the next one.

        `end` is at most `end_offset`. The caller verifies checksums. Raises DamagedLog.
        """
        while start < end:
            segment = self._segment_of(start)
            begun = start
            with self._reported(segment), self._opened(segment) as (handle, size):
                for entry, batch in scan_whole(self._fs, handle, self._position(segment, handle, size, start), size):
                    if entry.base_offset >= end and entry.header is not None:
                        return
                    if entry.last_offset < start:
                        continue
                    whole = len(batch) == entry.size_bytes
                    yield batch if whole else memoryview(self._fs.pread(handle, entry.size_bytes, entry.position))
                    start = entry.last_offset + 1
                    if start >= end:
                        return
            if segment.end_offset is None:
                if start == begun:
                    raise DamagedLog(f"{self._path(segment, LOG_SUFFIX)}: no record at or after offset {start}")
                continue
            start = max(start, segment.end_offset)

    def headers(self, start: int, end: int) -> Iterator[tuple[Entry, memoryview]]:
        """Yield the headers of entries in [start, end), with the bytes of control batches only."""
        for segment in self.segments:
            if segment.base_offset >= end or (segment.end_offset is not None and segment.end_offset <= start):
                continue
            with self._reported(segment), self._opened(segment) as (handle, size):
                position = self._position(segment, handle, size, start)
                for entry in self._entries(segment, handle, position, size, end):
                    if entry.last_offset >= start:
                        is_control = entry.header is not None and entry.header.is_control
                        batch = self._fs.pread(handle, entry.size_bytes, entry.position) if is_control else b""
                        yield entry, memoryview(batch)

    def offset_since(self, timestamp_ms: int, end: int) -> int | None:
        """Return the offset of the first record before `end` at or after a time, or None."""
        start = self.start_offset()
        for segment in self.segments:
            if segment.base_offset >= end:
                break
            if segment.end_offset is not None and segment.end_offset <= start:
                continue
            if self._is_before(segment, timestamp_ms):
                continue
            with self._reported(segment), self._opened(segment) as (handle, size):
                position = self._position_before_time(segment, handle, size, timestamp_ms)
                for entry in self._entries(segment, handle, position, size, end):
                    if entry.max_timestamp < timestamp_ms or entry.last_offset < start:
                        continue
                    batch = self._fs.pread(handle, entry.size_bytes, entry.position)
                    for record in iter_records(batch):
                        if record.timestamp >= timestamp_ms and start <= record.offset < end:
                            return record.offset
        return None

    def aborted(self, before: int) -> Iterator[AbortedTransaction]:
        """Return the aborted transactions in the indexes of segments that begin before an offset."""
        files = OpenFiles(self._fs)
        for segment in self.segments:
            name = file_name(segment.base_offset, TXN_INDEX_SUFFIX)
            if segment.base_offset < before and name in self._names:
                yield from TransactionIndex(files, f"{self.directory}/{name}", exists=True).entries()

    def snapshot_path(self, offset: int) -> str:
        """Return the path of the producer snapshot at an offset."""
        return snapshot_path(self.directory, offset)

    # ---- internals

    def _segment_of(self, offset: int) -> StoredSegment:
        place = bisect_right(self.segments, offset, key=lambda segment: segment.base_offset) - 1
        if place < 0:
            raise DataLoss(f"{self.directory}: offset {offset} was deleted: the log begins at {self.start_offset()}")
        return self.segments[place]

    def _path(self, segment: StoredSegment, suffix: str) -> str:
        return f"{self.directory}/{file_name(segment.base_offset, suffix)}"

    @contextmanager
    def _opened(self, segment: StoredSegment) -> Iterator[tuple[int, int]]:
        """Open the segment's log file; yield its handle and size."""
        try:
            handle = self._fs.open_read(self._path(segment, LOG_SUFFIX))
        except FileNotFoundError:
            raise DataLoss(f"{self._path(segment, LOG_SUFFIX)} was removed since its directory was read") from None
        try:
            yield handle, self._fs.size(handle)
        finally:
            self._fs.close(handle)

    @contextmanager
    def _reported(self, segment: StoredSegment) -> Iterator[None]:
        """Add the file's name to errors of records."""
        try:
            yield
        except RecordsError as error:
            raise DamagedLog(f"{self._path(segment, LOG_SUFFIX)}: {error}") from None

    def _entries(self, segment: StoredSegment, handle: int, position: int, size: int, end: int) -> Iterator[Entry]:
        """Yield entries from a position on that begin before an offset. Any bytes may follow the last one."""
        behind = end if segment.end_offset is None else min(end, segment.end_offset)
        for entry in scan_entries(self._fs, handle, position, size):
            if entry.base_offset >= behind:
                return
            yield entry
            if entry.last_offset + 1 >= behind:
                return

    def _index(self, segment: StoredSegment, suffix: str) -> StoredIndex:
        layout = OFFSET_LAYOUT if suffix == INDEX_SUFFIX else TIME_LAYOUT
        try:
            data = self._fs.read_file(self._path(segment, suffix))
        except FileNotFoundError:
            data = b""
        return StoredIndex(data, layout)

    def _position(self, segment: StoredSegment, handle: int, size: int, offset: int | None) -> int:
        """Return the position of a batch before which all offsets are below `offset`; None is the end."""
        index = self._index(segment, INDEX_SUFFIX)
        found = index.last() if offset is None else index.last_at_most(offset - segment.base_offset)
        if found is None:
            return 0
        indexed, position = segment.base_offset + found[0], found[1]
        return position if self._begins_batch(handle, size, position, segment, indexed) else 0

    def _begins_batch(self, handle: int, size: int, position: int, segment: StoredSegment, offset: int) -> bool:
        """Return whether an offset index entry points at a whole batch that begins at its offset or earlier."""
        if not 0 < position < size:
            return False
        try:
            found = next(scan_whole(self._fs, handle, position, size), None)
        except CorruptBatch:
            return False
        if found is None or not segment.base_offset <= found[0].base_offset <= offset:
            return False
        return has_right_checksum(self._fs, handle, *found)

    def _claims(self, segment: StoredSegment, handle: int, size: int, timestamp: int, offset: int) -> bool:
        """Return whether a time index entry is right: the batch of its offset has its timestamp."""
        try:
            position = self._position(segment, handle, size, offset)
            found = find_entry(self._fs, handle, position, size, offset, LONG_MAX)
        except CorruptBatch:
            return False
        return found is not None and found.max_timestamp == timestamp

    def _is_before(self, segment: StoredSegment, timestamp_ms: int) -> bool:
        """Return whether all records of a closed segment are older, by its verified time index."""
        if segment.end_offset is None:
            return False
        index = self._index(segment, TIME_INDEX_SUFFIX)
        last = index.last()
        if last is None or not index.is_cut or last[0] >= timestamp_ms:
            return False
        with self._opened(segment) as (handle, size):
            return self._claims(segment, handle, size, last[0], segment.base_offset + last[1])

    def _position_before_time(self, segment: StoredSegment, handle: int, size: int, timestamp_ms: int) -> int:
        """Return the position of a batch before which all records are older."""
        found = self._index(segment, TIME_INDEX_SUFFIX).last_at_most(timestamp_ms - 1)
        if found is None:
            return 0
        timestamp, offset = found[0], segment.base_offset + found[1]
        if not self._claims(segment, handle, size, timestamp, offset):
            return 0
        return self._position(segment, handle, size, offset)
