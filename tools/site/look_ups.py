"""How a record is found, by offset and by time: figures of a log that the broker's code has written and searched."""

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
from storage.segment.segments import Segments
from tools.site.diagrams import Column, pointers_diagram

_TIME_MS = 1_767_225_600_000  # 2026-01-01
_CONFIG = LogConfig(index_interval_bytes=150)
_BATCHES, _RECORDS = 8, 3
_OFFSET, _LATER_MS = 39, 14_000
"""What is looked for."""

_HEAD = f"""\
# How a record is found

A partition is one log, cut into segments, whose files are named after the first offset in them. The last one is active:
only that is written to. The indexes are sparse: here an entry comes when more than {_CONFIG.index_interval_bytes} bytes
lie behind the one before ([log.index.interval.bytes](../../generated/configs.md#log.index.interval.bytes), 4096 unless
set). What is drawn was written, and searched, by the broker: each second a batch of {_RECORDS} records.
"""
_OFFSET_STEPS = """\
1. The segment: that with the last name not above the offset, by a binary search over the names.
2. The last entry of its offset index not above the offset, by another. (The file has relative offsets.)
3. From the byte that the entry points at, the batches are walked by their headers, to the first whose last offset is
   not below the one that is looked for. A consumer gets that batch whole, and passes over what stands in it before.
"""
_TIME_TITLE = f"\n## By time: {_LATER_MS // 1000} seconds after the first record\n"
_TIME_STEPS = """\
1. The first segment whose largest timestamp is not below the time. That is the last entry of its time index, which is
   added when the segment is closed. Names say nothing of times, so one segment is asked after the other.
2. The last entry of its time index that is not later: before the batch that ends at its offset no record is later than
   the entry.
3. With that offset the way goes on through the offset index, and along the batches to the first whose largest timestamp
   is not below the time; in that one, to the record.

How the files look: [indexes and snapshots](indexes.md).
"""


def look_ups_page() -> str:
    """The page."""
    with _log() as segments:
        by_offset, by_time = _by_offset(segments), _by_time(segments)
    return "".join((_HEAD, f"\n## By offset: {_OFFSET}\n", by_offset, _OFFSET_STEPS, _TIME_TITLE, by_time, _TIME_STEPS))


@contextmanager
def _log() -> Iterator[Segments]:
    """Three segments, of as many batches each."""
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


def _index_and_log(segment: Segment, floor: int, found: Entry, told: Callable[[Entry], str]) -> tuple[Column, Column]:
    """The offset index, by whose entry number `floor` the way goes, and the batches from there to the one found."""
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
        Column(LOG_SUFFIX, [f"byte {each.position}: {told(each)}" for each in batches], list(range(first, last + 1))),
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
