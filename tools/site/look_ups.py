"""How a record is found, by offset and by time: diagrams of a log that the broker's code writes and searches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from protocol.records.builder import BatchBuilder
from storage.fs import LOCAL
from storage.index.offset import OffsetPosition
from storage.index.time import TimestampOffset
from storage.log_config import LogConfig
from storage.open_files import OpenFiles
from storage.segment.files import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, file_name
from storage.segment.scan import Entry
from storage.segment.segment import Segment
from storage.segment.segment_list import Segments
from tools.site.diagrams import Column, pointers_diagram

_TIME_MS = 1_767_225_600_000  # 2026-01-01
_CONFIG = LogConfig(index_interval_bytes=150)
_BATCHES, _RECORDS = 8, 3
_OFFSET, _LATER_MS = 39, 14_000
"""The offset or time that the example looks for."""

_HEAD = f"""\
# How a record is found

A partition is one log, divided into segments whose files are named after their first offset. Only the last one, the
active segment, is written. The indexes are sparse: here an entry is added after more than
{_CONFIG.index_interval_bytes} bytes of records since the last one
([log.index.interval.bytes](../../generated/configs.md#log.index.interval.bytes), default
4096). The broker's own code wrote and searched the data in the pictures: a batch of {_RECORDS} records each second.
"""
_OFFSET_STEPS = """\
1. A binary search over the file names finds the segment: the last one whose name is not above the offset.
2. Another one finds the last entry of its offset index that is not above the offset. (The file has relative offsets.)
3. From the byte that the entry points at, the batch headers are read up to the first batch whose last offset is not
   below the offset. A consumer gets that batch whole, and skips the earlier records in it.
"""
_TIME_TITLE = f"\n## By time: {_LATER_MS // 1000} seconds after the first record\n"
_TIME_STEPS = """\
1. The first segment whose largest timestamp is not below the time. It is the last entry of the segment's time index,
   which is added when the segment is closed. Names do not contain times, so segments are checked one after the other.
2. The last entry of its time index that is not later than the time: no record before the end of the batch that it
   names is later than the entry.
3. From that offset, the search continues in the offset index, and then over the batches to the first one whose largest
   timestamp is not below the time, and to the record in it.

The format of the files: [indexes and snapshots](indexes.md).
"""


def look_ups_page() -> str:
    """Return the page."""
    with _log() as segments:
        by_offset, by_time = _by_offset(segments), _by_time(segments)
    return "".join((_HEAD, f"\n## By offset: {_OFFSET}\n", by_offset, _OFFSET_STEPS, _TIME_TITLE, by_time, _TIME_STEPS))


@contextmanager
def _log() -> Iterator[Segments]:
    """Yield three segments with equal numbers of batches."""
    segments, offset = Segments(), 0
    with TemporaryDirectory() as directory:
        files = OpenFiles(LOCAL)
        for number in range(3):
            segment = Segment.create(files, directory, offset, _CONFIG, now_ms=_TIME_MS, roll_jitter_ms=0)
            for _ in range(_BATCHES):
                builder = BatchBuilder(base_offset=offset, leader_epoch=0)
                for later in range(_RECORDS):
                    builder.append(_TIME_MS + (offset + later) * 1000 // _RECORDS, b"17", b"apples")
                data, offset = builder.build(), offset + _RECORDS
                segment.append((data,), len(data), offset - 1, _TIME_MS + (offset - 1) * 1000 // _RECORDS)
            if number < 2:
                segment.become_inactive()
            segments.add(segment)
        yield segments
        for segment in segments:
            segment.close()


def _by_offset(segments: Segments) -> str:
    place = segments.floor(_OFFSET)
    segment = segments[place]
    found = segment.find(_OFFSET)
    assert found is not None
    names = [file_name(each.base_offset, LOG_SUFFIX) for each in segments]
    index = [entry.offset for entry in _entries(segment)]
    floor = index.index(segment.offset_index.look_up(_OFFSET).offset)
    return pointers_diagram([Column("segments", names, [place]), *_index_and_log(segment, floor, found, _offsets)])


def _by_time(segments: Segments) -> str:
    wanted = _TIME_MS + _LATER_MS
    place, segment = next((place, each) for place, each in enumerate(segments) if each.largest_timestamp >= wanted)
    found = next(batch for batch in segment.scan_from_timestamp(wanted) if batch.max_timestamp >= wanted)
    latest = [f"{file_name(each.base_offset, LOG_SUFFIX)} {_seconds(each.largest_timestamp)}" for each in segments]
    times = [
        TimestampOffset(time, segment.base_offset + relative)
        for time, relative in map(segment.time_index.entry, range(segment.time_index.entries))
    ]
    start = segment.time_index.look_up(wanted)
    index = [entry.offset for entry in _entries(segment)]
    floor = index.index(segment.offset_index.look_up(start.offset).offset)
    points_at = [index.index(each.offset) if each.offset in index else None for each in times]
    return pointers_diagram(
        [
            Column("segments, largest timestamp", latest, [place]),
            Column(
                TIME_INDEX_SUFFIX,
                [f"{_seconds(each.timestamp)}: {each.offset}" for each in times],
                [times.index(start)],
                points_at,
            ),
            *_index_and_log(segment, floor, found, lambda batch: f"{_offsets(batch)}, {_seconds(batch.max_timestamp)}"),
        ]
    )


def _index_and_log(
    segment: Segment, floor: int, found: Entry, describe: Callable[[Entry], str]
) -> tuple[Column, Column]:
    """Return the offset index, with entry `floor` on the search's path, and the batches from there to the one found."""
    entries, batches = _entries(segment), list(segment.scan(0))
    at = {batch.position: number for number, batch in enumerate(batches)}
    first, last = at[entries[floor].position], at[found.position]
    return (
        Column(
            INDEX_SUFFIX,
            [f"{entry.offset}: byte {entry.position}" for entry in entries],
            [floor],
            [at[entry.position] for entry in entries],
        ),
        Column(
            LOG_SUFFIX, [f"byte {each.position}: {describe(each)}" for each in batches], list(range(first, last + 1))
        ),
    )


def _entries(segment: Segment) -> list[OffsetPosition]:
    index = segment.offset_index
    return [
        OffsetPosition(segment.base_offset + relative, position)
        for relative, position in map(index.entry, range(index.entries))
    ]


def _offsets(batch: Entry) -> str:
    return f"{batch.base_offset} to {batch.last_offset}"


def _seconds(timestamp_ms: int) -> str:
    return f"{(timestamp_ms - _TIME_MS) / 1000:.1f} s"
