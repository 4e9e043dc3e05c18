"""Check one partition's directory: each batch of each segment, and the files that are derived from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from protocol.records.batch import NO_TIMESTAMP
from protocol.records.entries import iter_records
from protocol.records.errors import CorruptBatch, RecordsError
from protocol.records.record import Record
from storage.errors import CorruptFile
from storage.fs import LOCAL
from storage.log.tasks import DELETED_SUFFIX
from storage.log_config import INT_MAX
from storage.open_files import OpenFile, OpenFiles
from storage.producers.snapshot import read_snapshot
from storage.producers.state import ProducerState
from storage.recovery.segment import CORRUPT_SUFFIX
from storage.segment.files import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SUFFIXES,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
    parse_file_name,
)
from storage.segment.scan import WHOLE_WINDOW, Entry, has_right_checksum, scan_whole
from tools.data.checks.epochs import EpochCheck
from tools.data.checks.findings import Finding, Kind, Severity
from tools.data.checks.indexes import OffsetIndexCheck, TimeIndexCheck
from tools.data.checks.transactions import TransactionCheck

_FOR_EVER_MS = 1 << 62

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Facts about a log that are known from outside. `clean`: its last broker shut down cleanly."""

    clean: bool = True
    deep: bool = False
    log_start_offset: int = 0


class LogCheck:
    """The check of one log. Consume `findings`; then `start_offset` and `end_offset` are those of the segments.

    `progress` is called with the number of bytes read since its last call. Raises OSError.
    """

    def __init__(self, path: str, options: LogOptions, progress: Progress = lambda size: None) -> None:
        self.path = path
        self.options = options
        self.start_offset = 0
        self.end_offset = 0
        #: Whether a segment has bytes that could not be split into batches; they were reported as a loss.
        self.is_broken = False
        self._progress = progress
        self._files = OpenFiles(LOCAL)
        self._epochs = EpochCheck(path, options.log_start_offset)
        self._transactions = TransactionCheck(self._files, ProducerState(), knows_all=False)

    def findings(self) -> Iterator[Finding]:
        """Yield the findings in the order of the log."""
        segments: dict[int, set[str]] = {}
        snapshots = []
        for entry in sorted(LOCAL.list(self.path)):
            parsed = None if entry.is_directory else parse_file_name(entry.name)
            if parsed is None:
                continue
            offset, suffix = parsed
            if suffix == SNAPSHOT_SUFFIX:
                snapshots.append(offset)
            elif suffix in SUFFIXES:
                segments.setdefault(offset, set()).add(suffix)
            else:
                yield from self._leftover(entry.name)
        yield from self._epochs.start()
        logs = [offset for offset in sorted(segments) if LOG_SUFFIX in segments[offset]]
        for offset in sorted(segments.keys() - set(logs)):
            for suffix in sorted(segments[offset]):
                yield Finding(self._file(offset, suffix), Kind.LEFTOVER, "an index without a segment")
        yield from self._snapshots(snapshots, logs[0] if logs else 0)
        self.start_offset = self.end_offset = logs[0] if logs else 0
        if not logs:
            yield Finding(self._file(0, LOG_SUFFIX), Kind.RECORDS, "the partition has no segment")
        for offset, following in zip(logs, [*logs[1:], None], strict=False):
            yield from self._segment(offset, segments[offset], following)
        yield from self._epochs.finish(self.end_offset)
        for offset in snapshots:
            if offset > self.end_offset:
                what = f"the log ends at offset {self.end_offset}"
                yield Finding(self._file(offset, SNAPSHOT_SUFFIX), Kind.PRODUCER_SNAPSHOT, what)

    def _file(self, base_offset: int, suffix: str) -> str:
        return f"{self.path}/{file_name(base_offset, suffix)}"

    def _leftover(self, name: str) -> Iterator[Finding]:
        path = f"{self.path}/{name}"
        if name.endswith(SWAP_SUFFIX):
            yield Finding(path, Kind.LEFTOVER, "a compaction was interrupted; the next start finishes it")
        elif name.endswith((CLEANED_SUFFIX, ".tmp")):
            yield Finding(path, Kind.LEFTOVER, "an unfinished file; the next start removes it", Severity.NOTE)
        elif name.endswith(DELETED_SUFFIX):
            yield Finding(path, Kind.LEFTOVER, "deleted; the next start removes it", Severity.NOTE)
        elif name.endswith(CORRUPT_SUFFIX):
            yield Finding(path, Kind.LEFTOVER, "data that a recovery truncated and kept", Severity.NOTE)

    def _snapshots(self, offsets: list[int], base_offset: int) -> Iterator[Finding]:
        """Check the producer snapshots; that at the start of the first segment is the initial state of transactions."""
        state = ProducerState(_FOR_EVER_MS)
        state.clear(base_offset)
        knows_all = base_offset == 0
        for offset in offsets:
            path = self._file(offset, SNAPSHOT_SUFFIX)
            try:
                entries = read_snapshot(LOCAL, path)
            except CorruptFile as error:
                yield Finding(path, Kind.PRODUCER_SNAPSHOT, error.reason)
                continue
            late = next((entry for entry in entries if entry.last_offset >= offset), None)
            if late is not None:
                what = f"producer {late.producer_id} has an offset that was not in the log at that time"
                yield Finding(path, Kind.PRODUCER_SNAPSHOT, what, offset=late.last_offset)
            elif offset == base_offset:
                state.load(entries, offset, 0)
                knows_all = True
        self._transactions = TransactionCheck(self._files, state, knows_all=knows_all)

    def _segment(self, base_offset: int, suffixes: set[str], following: int | None) -> Iterator[Finding]:
        """Check one segment with its indexes; `following` is the base offset of the next segment."""
        path = self._file(base_offset, LOG_SUFFIX)
        complete = self.options.clean or following is not None
        offsets = OffsetIndexCheck(self._file(base_offset, INDEX_SUFFIX), base_offset, complete=complete)
        times = TimeIndexCheck(self._file(base_offset, TIME_INDEX_SUFFIX), base_offset, complete=complete)
        epochs = self._epochs
        yield from offsets.start()
        yield from times.start()
        next_offset = max(base_offset, self.end_offset)
        largest = NO_TIMESTAMP
        limit = base_offset + INT_MAX + 1 if following is None else following
        walk = _Walk(path, next_offset, limit, self._progress, deep=self.options.deep)
        for entry, batch in walk.batches():
            yield from walk.drain()
            header = entry.header
            if header is not None:
                if entry.base_offset != next_offset or header.record_count <= header.last_offset_delta:
                    self._transactions.has_gaps = True
                if header.leader_epoch != epochs.epoch or entry.base_offset >= epochs.next_offset:
                    yield from epochs.see(path, entry.position, entry.base_offset, header.leader_epoch)
                if header.producer_id >= 0:
                    self._transactions.see(batch, header, entry.last_offset)
            if entry.position >= offsets.next_position or offsets.is_open:
                yield from offsets.see(entry)
            if entry.last_offset >= times.next_offset:
                yield from times.see(entry, next_offset, largest, partial(walk.first_of_largest, entry, batch))
            largest = max(largest, entry.max_timestamp)
            next_offset = entry.last_offset + 1
        yield from walk.drain()
        if not walk.broken:  # else the index entries for the rest cannot be checked
            yield from offsets.finish()
            yield from times.finish(largest)
        yield from self._transactions.end_segment(
            self._file(base_offset, TXN_INDEX_SUFFIX),
            exists=TXN_INDEX_SUFFIX in suffixes,
            base_offset=base_offset,
            end_offset=INT_MAX << 32 if walk.broken else next_offset,
        )
        self.end_offset = max(self.end_offset, next_offset)
        self.is_broken |= walk.broken and not walk.zeros


class _Walk:
    """A walk over the batches of a segment that can be delimited; it collects findings."""

    def __init__(self, path: str, next_offset: int, limit: int, progress: Progress, *, deep: bool) -> None:
        """The offsets of this segment are from `next_offset` on and below `limit`. Raises OSError."""
        self._file = OpenFile(LOCAL, LOCAL.open_read(path))
        self._handle = self._file.handle
        self._size_bytes = LOCAL.size(self._handle)
        self._path = path
        self._next_offset = next_offset
        self._limit = limit
        self._in_order = True
        self._progress = progress
        self._deep = deep
        self._found: list[Finding] = []
        #: Whether bytes follow that could not be split into batches but are all zeros, so no records are lost.
        self.broken = self.zeros = False

    def drain(self) -> list[Finding]:
        """Return the findings since the last call."""
        found, self._found = self._found, []
        return found

    def _add(self, what: str, entry: Entry, kind: Kind = Kind.RECORDS, severity: Severity = Severity.LOSS) -> None:
        self._found.append(Finding(self._path, kind, what, severity, entry.position, entry.base_offset))

    def batches(self) -> Iterator[tuple[Entry, memoryview]]:
        """Yield each batch with its bytes, of a large one only the first. Batches out of order are skipped."""
        position = reported = 0
        reason = "a batch is not whole"
        try:
            for entry, batch in scan_whole(LOCAL, self._handle, 0, self._size_bytes):
                if self._is_right(entry, batch):
                    self._next_offset = entry.last_offset + 1
                    yield entry, batch
                position += entry.size_bytes
                if position - reported >= WHOLE_WINDOW:
                    self._progress(position - reported)
                    reported = position
        except CorruptBatch as error:
            reason = str(error)
        if position < self._size_bytes:
            self._broken_at(position, reason)
        self._progress(self._size_bytes - reported)

    def _is_right(self, entry: Entry, batch: memoryview) -> bool:
        """Return whether the batch may be at its place in the log; add findings on it."""
        if not has_right_checksum(LOCAL, self._handle, entry, batch):
            self._add("the checksum of the batch is wrong", entry)
        if entry.base_offset < self._next_offset:
            if self._in_order:  # once for all that follow
                self._add(f"the batch comes where offset {self._next_offset} is the next", entry)
            self._in_order = False
            return False
        if not entry.base_offset <= entry.last_offset < self._limit:
            offsets = f"{entry.base_offset} to {entry.last_offset}"
            what = f"the batch has the offsets {offsets}, which are not below {self._limit} as the segment's are"
            self._add(what, entry, Kind.CONTENT, Severity.DAMAGE)
            return False
        if self._deep:
            self._look_into(entry, batch)
        return True

    def first_of_largest(self, entry: Entry, batch: bytes | memoryview) -> int | None:
        """Return the offset of the first record with the batch's largest timestamp; None if they are unreadable."""
        try:
            offsets = (each.offset for each in self._records(entry, batch) if each.timestamp == entry.max_timestamp)
            return next(offsets, entry.last_offset)
        except RecordsError:
            return None

    def _records(self, entry: Entry, batch: bytes | memoryview) -> Iterator[Record]:
        if len(batch) < entry.size_bytes:
            batch = LOCAL.pread(self._handle, entry.size_bytes, entry.position)
        return iter_records(batch)

    def _look_into(self, entry: Entry, batch: bytes | memoryview) -> None:
        """Decode the records, as consumers do. The broker has not verified that they match the batch header."""
        before = entry.base_offset - 1 if entry.header is not None else self._next_offset - 1
        try:
            for record in self._records(entry, batch):
                if not before < record.offset <= entry.last_offset:
                    self._add(f"a record has the offset {record.offset}", entry, Kind.CONTENT, Severity.DAMAGE)
                    return
                before = record.offset
        except RecordsError as error:
            self._add(f"the records cannot be read: {error}", entry, Kind.CONTENT, Severity.DAMAGE)

    def _broken_at(self, position: int, reason: str) -> None:
        """Report that the bytes from `position` on are not batches. Preallocation and power failures leave zeros."""
        self.broken = True
        rest = self._size_bytes - position
        at = position
        while at < self._size_bytes:
            piece = LOCAL.pread(self._handle, min(WHOLE_WINDOW, self._size_bytes - at), at)
            if not piece or piece.count(0) < len(piece):
                what = f"{reason}; the {rest} bytes from here to the end cannot be read"
                self._found.append(Finding(self._path, Kind.RECORDS, what, Severity.LOSS, position, self._next_offset))
                return
            at += len(piece)
        self.zeros = True
        what = f"{rest} zeros come after the last batch of {os.path.basename(self._path)}"
        self._found.append(Finding(self._path, Kind.RECORDS, what, Severity.DAMAGE, position))
