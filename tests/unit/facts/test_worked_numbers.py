"""The worked numbers of the documents: names, index entries and look-ups, in real files and end to end."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from protocol.records.entries import iter_records
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.segment.files import file_name
from tests.support.logs import T0, append, batch, close, open_log, sized


def segment_files(root: Path, base_offset: int, sizes: list[int], interval_bytes: int, timestamp: int = T0) -> None:
    """Write the files of a segment into the log in `root`: batches of one record with these sizes, indexed."""
    folder = root / "made" / str(base_offset)
    (folder / "orders-0").mkdir(parents=True)
    (folder / "orders-0" / file_name(base_offset, ".log")).touch()
    log = open_log(folder, LogConfig(index_interval_bytes=interval_bytes), log_start_offset=base_offset)
    for number, size in enumerate(sizes):
        assert append(log, sized(size, timestamp=timestamp + number)) == base_offset + number
    close(log)
    (root / "orders-0").mkdir(exist_ok=True)
    for file in (folder / "orders-0").glob(f"{base_offset:020d}.*"):
        shutil.move(file, root / "orders-0" / file.name)


def opened(root: Path) -> PartitionLog:
    """Open the log of the segments that were written."""
    return open_log(root, LogConfig(index_interval_bytes=400), clean=True)


def read_first(log: PartitionLog, offset: int) -> int:
    """Return the offset of the first record for a consumer that requests `offset`, with small limits."""
    part = log.read(offset, 1, log.log_end_offset)
    return next(iter_records(part if isinstance(part, bytes) else part.read())).offset


def entries(log: PartitionLog, segment: int) -> list[tuple[int, int]]:
    """Return the offset index of a segment in the form of the file: relative offsets and positions."""
    index = log.segments[segment].offset_index
    return [index.entry(number) for number in range(index.entries)]


def test_names_of_a_topic_with_segments_of_500_mb(tmp_path: Path) -> None:
    """S3.6: 0, 368769 and 737337 in twenty digits. A name is the first offset of its segment."""
    for base_offset in (0, 368_769, 737_337):
        segment_files(tmp_path, base_offset, [100], 4096)
    log = opened(tmp_path)

    assert sorted(file.name for file in (tmp_path / "orders-0").glob("*.log")) == [
        "00000000000000000000.log",
        "00000000000000368769.log",
        "00000000000000737337.log",
    ]
    assert [read_first(log, offset) for offset in (0, 368_769, 737_337)] == [0, 368_769, 737_337]


def test_names_of_the_second_example(tmp_path: Path) -> None:
    """S3.7: 0, 170410 and 239430."""
    for base_offset in (0, 170_410, 239_430):
        segment_files(tmp_path, base_offset, [100], 4096)
    log = opened(tmp_path)

    assert [segment.log.path[-24:] for segment in log.segments] == [
        "00000000000000000000.log",
        "00000000000000170410.log",
        "00000000000000239430.log",
    ]
    assert read_first(log, 170_410) == 170_410


def test_a_segment_from_1000_to_1499_has_500_offsets(tmp_path: Path) -> None:
    """S3.8, S3.4: the next name is the last offset plus one, so the difference of two names counts offsets."""
    segment_files(tmp_path, 1000, [100], 4096)
    log = opened(tmp_path)
    for _ in range(499):
        append(log, sized(100))
    log.roll(log.log_end_offset, T0)

    assert log.segments.base_offsets == [1000, 1500]
    assert log.segments.base_offsets[1] - log.segments.base_offsets[0] == 500
    assert append(log, sized(100)) == 1500


def test_third_message_of_segment_368769_is_at_byte_497(tmp_path: Path) -> None:
    """S4.10: entry (3, 497) is offset 368772. A look-up of 368776 uses segment 368769 and this entry."""
    segment_files(tmp_path, 0, [100], 400)
    segment_files(tmp_path, 368_769, [165, 166, 166, *[90] * 4, 100], 400)
    segment_files(tmp_path, 737_337, [100], 400)
    log = opened(tmp_path)
    segment = log.segments[log.segments.floor(368_776)]

    assert segment.base_offset == 368_769
    assert entries(log, 1) == [(3, 497)]
    assert segment.offset_index.look_up(368_776) == (368_772, 497)
    assert [read_first(log, offset) for offset in (368_772, 368_776)] == [368_772, 368_776]


def test_entries_3_and_8_of_segment_170410(tmp_path: Path) -> None:
    """S4.11: (3, 348) is offset 170413. (8, 1325) is offset 170418, and the look-up of 170418 finds it."""
    segment_files(tmp_path, 0, [100], 300)
    segment_files(tmp_path, 170_410, [116, 116, 116, 75, 75, 75, 75, 677, 100], 300)
    segment_files(tmp_path, 239_430, [100], 300)
    log = opened(tmp_path)
    segment = log.segments[log.segments.floor(170_418)]

    assert segment.base_offset == 170_410
    assert entries(log, 1) == [(3, 348), (8, 1325)]
    assert segment.offset_index.look_up(170_418) == (170_418, 1325)
    assert segment.offset_index.look_up(170_417) == (170_413, 348)
    assert [read_first(log, offset) for offset in (170_413, 170_417, 170_418)] == [170_413, 170_417, 170_418]


def test_offset_1000_is_found_by_the_entry_of_995(tmp_path: Path) -> None:
    """S4.12: the second of the segments 0, 801, 1601. Relative offset 194 is not above 199. A scan finds the rest."""
    segment_files(tmp_path, 0, [100], 4096)
    segment_files(tmp_path, 801, [80] * 800, 96 * 80)
    segment_files(tmp_path, 1601, [100], 4096)
    log = opened(tmp_path)
    segment = log.segments[log.segments.floor(1000)]
    found = segment.offset_index.look_up(1000)

    assert segment.base_offset == 801
    assert found.offset == 995
    assert (194, found.position) in entries(log, 1)
    assert [entry.base_offset for entry in segment.scan(found.position)][:6] == [995, 996, 997, 998, 999, 1000]
    assert read_first(log, 1000) == 1000


def test_time_150_lies_in_the_second_of_three_segments(tmp_path: Path) -> None:
    """S5.6, S5.4: segments with the times 1-100, 101-200 and 201-300, in the last entries of their time indexes."""
    for base_offset, first_time in ((0, 1), (100, 101), (200, 201)):
        segment_files(tmp_path, base_offset, [100] * 100, 1000, timestamp=T0 + first_time)
    log = opened(tmp_path)
    found = log.offset_for_timestamp(T0 + 150)

    assert [segment.time_index.last().timestamp - T0 for segment in log.segments] == [100, 200, 300]
    assert [segment.largest.timestamp - T0 for segment in log.segments] == [100, 200, 300]
    assert found is not None
    assert (found.timestamp - T0, found.offset) == (150, 149)
    assert log.segments[log.segments.floor(found.offset)].base_offset == 100


#: The documents' dumps of segment 256715: sizes of its batches, and their times in both indexes.
SIZES = [7882, 7895, 7990, 8023, 7989, 8075, 8041, 7980, 7900]
TIMES = [
    1563248553230,
    1563248553235,
    1563248558397,
    1563248558404,
    1563248558412,
    1563248558419,
    1563248563532,
    1563248563540,
    1563248563548,
]


@pytest.fixture
def dumped(tmp_path: Path) -> PartitionLog:
    """The log of the documents' dumps, appended to through the log."""
    segment_files(tmp_path, 256_715, [], 4096)
    log = open_log(tmp_path, LogConfig(message_timestamp_before_max_ms=(1 << 63) - 1), clean=True)
    for size, timestamp in zip(SIZES, TIMES, strict=True):
        append(log, sized(size, timestamp=timestamp))
    return log


def test_dump_of_the_offset_index_of_segment_256715(dumped: PartitionLog) -> None:
    """S4.16, S4.15: eight entries. The first one is behind the first batch, which has no entry."""
    assert [(dumped.segments[0].base_offset + offset, position) for offset, position in entries(dumped, 0)] == [
        (256716, 7882),
        (256717, 15777),
        (256718, 23767),
        (256719, 31790),
        (256720, 39779),
        (256721, 47854),
        (256722, 55895),
        (256723, 63875),
    ]


def test_dump_of_the_time_index_of_segment_256715(dumped: PartitionLog) -> None:
    """S5.8: one entry for each entry of the offset index."""
    index = dumped.segments[0].time_index

    assert [(index.entry(number)[0], 256_715 + index.entry(number)[1]) for number in range(index.entries)] == [
        (1563248553235, 256716),
        (1563248558397, 256717),
        (1563248558404, 256718),
        (1563248558412, 256719),
        (1563248558419, 256720),
        (1563248563532, 256721),
        (1563248563540, 256722),
        (1563248563548, 256723),
    ]


@pytest.mark.parametrize(("start", "left"), [(25, [21]), (21, [21]), (20, [11, 21]), (11, [11, 21]), (10, [0, 11, 21])])
def test_log_start_25_removes_the_segments_0_to_10_and_11_to_20(start: int, left: list[int], tmp_path: Path) -> None:
    """S14.16: a segment is deleted if the next base offset is not above the log start. Segment 21 to 30 stays."""
    manager = LogManager([str(tmp_path)])
    manager.lock()
    log = manager.create("orders", 0, bytes(16), LogConfig(retention_ms=-1), T0)
    for number in range(31):
        if number in (11, 21):
            log.roll(number, T0)
        append(log, batch())
    assert log.segments.base_offsets == [0, 11, 21]
    log.delete_records(start)
    for task in manager.retention_tasks(T0):
        task.run()
        task.apply()

    assert log.segments.base_offsets == left
    assert (log.log_start_offset, log.log_end_offset) == (start, 31)
