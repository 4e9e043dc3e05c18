"""Dump the index files of a segment, and check them against the segment.

Apache Kafka's tool creates missing index files. This one writes nothing: a missing index ends the dump.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct

from protocol.records.batch import NO_TIMESTAMP, parse_header
from protocol.records.entries import iter_records
from protocol.records.record import skim_records
from tools.data.dump.events import (
    Event,
    Note,
    OffsetEntry,
    TimeEntry,
)
from tools.data.log_reader import LogReader, RawEntry
from tools.errors import DumpFailed

_OFFSET_LAYOUT, _TIME_LAYOUT = Struct(">ii"), Struct(">qi")
#: Kafka searches the last bytes of an index first, this many. If zeros follow the entries, this affects the result.
_WARM_BYTES = 8192
_MAX_INT = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """How much to dump: only the sanity check that a start does, only the check against the segment, or entries too."""

    sanity_only: bool = False
    verify_only: bool = False
    max_message_size: int = 5 << 20


@dataclass(slots=True)
class IndexErrors:
    """Errors in indexes, by file; the dump reports them at its end."""

    offsets: dict[str, dict[int, int]] = field(default_factory=dict)
    timestamps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    order: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    missing: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def report(self) -> Iterator[Note]:
        for path, found in self.offsets.items():
            yield Note(f"Mismatches in :{path}", problem=True)
            for index_offset, log_offset in sorted(found.items(), reverse=True):
                yield Note(f"  Index offset: {index_offset}, log offset: {log_offset}", problem=True)
        for path, pairs in self.timestamps.items():
            yield Note(f"Found timestamp mismatch in :{path}", problem=True)
            for indexed, logged in pairs:
                yield Note(f"  Index timestamp: {indexed}, log timestamp: {logged}", problem=True)
        for path, pairs in self.order.items():
            yield Note(f"Found out of order timestamp in :{path}", problem=True)
            for indexed, before in pairs:
                yield Note(f"  Index timestamp: {indexed}, Previously indexed timestamp: {before}", problem=True)
        for path, pairs in self.missing.items():
            yield Note(f"The following indexed offsets are not found in :{path}", problem=True)
            for indexed, logged in pairs:
                yield Note(f"Indexed offset: {indexed}, found log offset: {logged}", problem=True)


def _entries(path: str, layout: Struct) -> tuple[list[tuple[int, int]], int]:
    """Return the complete entries of an index file as stored, and the size of the file in bytes."""
    with open(path, "rb") as file:
        data = file.read()
    whole = len(data) // layout.size * layout.size
    return list(layout.iter_unpack(memoryview(data)[:whole])), len(data)


def _base_offset(path: str) -> int:
    stem = os.path.basename(path).partition(".")[0]
    if not stem.isascii() or not stem.isdigit():
        raise DumpFailed(f"{path} is not named after an offset")
    return int(stem)


def _beside(path: str, suffix: str) -> str:
    return os.path.join(os.path.dirname(path), os.path.basename(path).partition(".")[0] + suffix)


def dump_offset_index(path: str, options: IndexOptions, errors: IndexErrors) -> Iterator[Event]:
    """Yield the entries of a .index file. Raises DumpFailed, OSError."""
    base_offset = _base_offset(path)
    with LogReader(_beside(path, ".log")) as log:
        entries, size = _entries(path, _OFFSET_LAYOUT)
        if not entries:
            yield Note(f"{path} is empty.")
            return
        if options.sanity_only:
            _check_size(path, size, _OFFSET_LAYOUT, entries[-1][0])
            yield Note(f"{path} passed sanity check.")
            return
        for number, (relative, position) in enumerate(entries):
            if relative == 0 and number:  # the unused rest of a preallocated file
                return
            offset = base_offset + relative
            found = _last_offset(log, position, options.max_message_size)
            if found != offset:
                errors.offsets.setdefault(os.path.abspath(path), {})[offset] = found
            if not options.verify_only:
                yield OffsetEntry(offset, position)


def _check_size(path: str, size: int, layout: Struct, last_relative: int) -> None:
    if last_relative < 0:
        raise DumpFailed(f"{path} is corrupt: its last entry is {-last_relative} below its base offset")
    if size % layout.size:
        raise DumpFailed(f"{path} is corrupt: {size} bytes are not a multiple of the entry size, {layout.size}")


def _last_offset(log: LogReader, position: int, max_size: int) -> int:
    if not 0 <= position <= log.size_bytes:
        raise DumpFailed(f"position {position} lies outside of the segment's {log.size_bytes} bytes")
    entry = next(log.entries(position, position + max_size), None)
    if entry is None:
        raise DumpFailed(f"no batch of up to {max_size} bytes lies at position {position}")
    return _end(entry)


def _end(entry: RawEntry) -> int:
    return entry.offset if entry.magic < 2 else parse_header(entry.head).last_offset


def dump_time_index(path: str, options: IndexOptions, errors: IndexErrors) -> Iterator[Event]:
    """Yield the entries of a .timeindex file, using the .index beside it. Raises DumpFailed, OSError, RecordsError."""
    base_offset = _base_offset(path)
    key = os.path.abspath(path)
    with LogReader(_beside(path, ".log")) as log:
        index, _ = _entries(_beside(path, ".index"), _OFFSET_LAYOUT)
        entries, size = _entries(path, _TIME_LAYOUT)
        if options.sanity_only:
            if entries and entries[-1][0] < entries[0][0]:
                raise DumpFailed(f"{path} is corrupt: its last timestamp is before its first")
            _check_size(path, size, _TIME_LAYOUT, entries[-1][1] if entries else 0)
            yield Note(f"{path} passed sanity check.")
            return
        before = NO_TIMESTAMP
        for number, (timestamp, relative) in enumerate(entries):
            if relative == 0 and number:
                return
            offset = base_offset + relative
            position = _floor_position(index, relative)
            if not 0 <= position <= log.size_bytes:
                raise DumpFailed(f"position {position} lies outside of the segment's {log.size_bytes} bytes")
            batch = next((entry for entry in log.entries(position) if _end(entry) >= offset), None)
            if batch is None or _end(batch) != offset:
                found = -1 if batch is None else _end(batch)
                errors.missing.setdefault(key, []).append((offset, found))
            else:
                largest = _largest_timestamp(log, batch)
                if largest != timestamp:
                    errors.timestamps.setdefault(key, []).append((timestamp, largest))
                if before >= timestamp:
                    errors.order.setdefault(key, []).append((timestamp, before))
            if not options.verify_only:
                yield TimeEntry(timestamp, offset)
            before = timestamp


def _largest_timestamp(log: LogReader, entry: RawEntry) -> int:
    data = log.whole(entry)
    records = iter_records(data) if entry.magic < 2 else skim_records(data, parse_header(entry.head))
    return max((record.timestamp for record in records), default=NO_TIMESTAMP)


def _floor_position(entries: list[tuple[int, int]], target: int) -> int:
    """Return the position of the last entry not above `target`, searched in Kafka's steps; 0 if there is none."""
    if not entries:
        return 0
    warm = max(0, len(entries) - 1 - _WARM_BYTES // _OFFSET_LAYOUT.size)
    if entries[warm][0] < target:
        low, high = warm, len(entries) - 1
    elif entries[0][0] > target:
        return 0
    else:
        low, high = 0, warm
    while low < high:
        middle = (low + high + 1) // 2
        if entries[middle][0] > target:
            high = middle - 1
        elif entries[middle][0] < target:
            low = middle
        else:
            return entries[middle][1]
    return entries[low][1]
