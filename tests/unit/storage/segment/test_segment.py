"""A segment: its index entries, and the sample dumps of the documents."""

from pathlib import Path
from struct import iter_unpack

import pytest

from protocol.records.errors import CorruptBatch
from storage.fs import LOCAL, FileSystem
from storage.log_config import LogConfig
from storage.open_files import OpenFiles
from storage.position_cache import BatchPosition
from storage.segment.scan import Entry, scan_entries
from storage.segment.segment import Segment
from tests.support.batch_values import patch_in_place
from tests.support.logs import T0, batch, sized

#: Sizes and timestamps of one-record batches from the samples, from offset 256715 on (S4.16, S5.8).
SAMPLE_SIZES = [7882, 7895, 7990, 8023, 7989, 8075, 8041, 7980, 8000]
SAMPLE_TIMES = [
    1563248553000,
    1563248553235,
    1563248558397,
    1563248558404,
    1563248558412,
    1563248558419,
    1563248563532,
    1563248563540,
    1563248563548,
]


def new_segment(directory: Path, base_offset: int = 0, config: LogConfig | None = None) -> Segment:
    return Segment.create(
        OpenFiles(LOCAL), str(directory), base_offset, config or LogConfig(), now_ms=T0, roll_jitter_ms=0
    )


def add(segment: Segment, offset: int, records: bytearray, count: int = 1, timestamp: int = T0) -> None:
    patch_in_place(records, 0, offset, 0)
    segment.append((records,), len(records), offset + count - 1, timestamp)


def sample(directory: Path) -> Segment:
    segment = new_segment(directory, 256715)
    for number, (size, timestamp) in enumerate(zip(SAMPLE_SIZES, SAMPLE_TIMES, strict=True)):
        add(segment, 256715 + number, sized(size, timestamp=timestamp), timestamp=timestamp)
    segment.become_inactive()
    return segment


EXPECTED_INDEX = [
    (256716, 7882),
    (256717, 15777),
    (256718, 23767),
    (256719, 31790),
    (256720, 39779),
    (256721, 47854),
    (256722, 55895),
    (256723, 63875),
]


@pytest.mark.parametrize("rebuilt", [False, True])
def test_sample_indexes_of_the_documents(rebuilt: bool, tmp_path: Path) -> None:
    """S4.15, S4.16, S5.8: by appends, and rebuilt from the records."""
    segment = sample(tmp_path)
    if rebuilt:
        segment.rebuild_indexes()
    index = iter_unpack(">ii", Path(segment.offset_index.file.path).read_bytes())
    assert [(256715 + relative, position) for relative, position in index] == EXPECTED_INDEX
    time_index = iter_unpack(">qi", Path(segment.time_index.file.path).read_bytes())
    assert [(timestamp, 256715 + relative) for timestamp, relative in time_index] == list(
        zip(SAMPLE_TIMES[1:], range(256716, 256724), strict=True)
    )


def test_first_batch_gets_no_entry_and_small_ones_share_one(tmp_path: Path) -> None:
    """S4.1, S4.2: an entry once more than index.interval.bytes follow the last entry, before the batch is counted."""
    segment = new_segment(tmp_path, config=LogConfig(index_interval_bytes=250))
    for offset in range(9):
        add(segment, offset, sized(100))
    assert segment.offset_index.entries == 2
    assert [segment.offset_index.entry(number) for number in range(2)] == [(3, 300), (6, 600)]


def test_one_more_time_entry_on_roll(tmp_path: Path) -> None:
    """S5.3: the last entry is the largest timestamp."""
    segment = new_segment(tmp_path)
    add(segment, 0, batch(timestamp=T0), timestamp=T0)
    add(segment, 1, batch(timestamp=T0 + 5), timestamp=T0 + 5)
    assert segment.time_index.entries == 0
    segment.become_inactive()
    assert segment.time_index.last() == (T0 + 5, 1)
    assert Path(segment.time_index.file.path).stat().st_size == 12
    assert Path(segment.offset_index.file.path).stat().st_size == 0


def test_largest_timestamp_belongs_to_its_first_batch(tmp_path: Path) -> None:
    """Later batches with the same timestamp do not count."""
    segment = new_segment(tmp_path)
    for offset, timestamp in enumerate([T0, T0 + 9, T0 + 3, T0 + 9]):
        add(segment, offset, batch(timestamp=timestamp), timestamp=timestamp)
    assert segment.largest == (T0 + 9, 1)


def test_without_timestamps_the_file_time_counts(tmp_path: Path) -> None:
    """S5.4, S14.7: only then the modification time counts."""
    segment = new_segment(tmp_path)
    add(segment, 0, batch(timestamp=-1), timestamp=-1)
    assert segment.largest.timestamp == -1
    assert segment.largest_timestamp == Path(segment.log.path).stat().st_mtime_ns // 1_000_000


@pytest.mark.parametrize(
    ("config", "before", "size", "timestamp", "now_ms", "rolls"),
    [
        (LogConfig(segment_bytes=300), 2, 100, T0, T0, False),
        (LogConfig(segment_bytes=299), 2, 100, T0, T0, True),
        (LogConfig(segment_ms=1000), 1, 100, T0 + 1000, T0, False),
        (LogConfig(segment_ms=1000), 1, 100, T0 + 1001, T0, True),
        (LogConfig(segment_ms=1000), 0, 100, T0 + 9999, T0 + 9999, False),
        (LogConfig(segment_index_bytes=8), 0, 100, T0, T0, True),
        (LogConfig(segment_index_bytes=24), 0, 100, T0, T0, False),
    ],
)
def test_roll_conditions(
    config: LogConfig, before: int, size: int, timestamp: int, now_ms: int, rolls: bool, tmp_path: Path
) -> None:
    """S13.2-S13.4: the size with the next batch, its timestamp against the first batch's, a full index."""
    segment = new_segment(tmp_path, config=config)
    for offset in range(before):
        add(segment, offset, sized(100))
    assert segment.must_roll(config, size, before, timestamp, now_ms) is rolls


def test_rolls_when_offsets_are_too_far_apart(tmp_path: Path) -> None:
    """S13.5: more than 2147483647 above the base offset."""
    segment = new_segment(tmp_path, 10)
    assert not segment.must_roll(LogConfig(), 100, 10 + (1 << 31) - 1, T0, T0)
    assert segment.must_roll(LogConfig(), 100, 10 + (1 << 31), T0, T0)


def test_jitter_makes_segments_roll_earlier(tmp_path: Path) -> None:
    """segment.jitter.ms."""
    config = LogConfig(segment_ms=1000, segment_jitter_ms=100)
    segment = Segment.create(OpenFiles(LOCAL), str(tmp_path), 0, config, now_ms=T0, roll_jitter_ms=60)
    add(segment, 0, batch())
    assert not segment.must_roll(config, 100, 1, T0 + 940, T0)
    assert segment.must_roll(config, 100, 1, T0 + 941, T0)


def test_without_timestamps_the_wall_clock_rolls(tmp_path: Path) -> None:
    """From the creation of the segment on."""
    config = LogConfig(segment_ms=1000)
    segment = new_segment(tmp_path, config=config)
    add(segment, 0, batch(timestamp=-1), timestamp=-1)
    assert not segment.must_roll(config, 100, 1, -1, T0 + 1000)
    assert segment.must_roll(config, 100, 1, -1, T0 + 1001)


def test_find_returns_the_batch_with_the_offset(tmp_path: Path) -> None:
    """S4.9: also inside a batch; None beyond the end."""
    segment = new_segment(tmp_path, 100, LogConfig(index_interval_bytes=200))
    for number in range(50):
        add(segment, 100 + 3 * number, batch(b"a", b"b", b"c"), 3)
    for offset in range(100, 250):
        entry = segment.find(offset)
        assert entry is not None
        assert entry.base_offset <= offset <= entry.last_offset
    assert segment.find(250) is None
    assert segment.next_offset() == 250


def test_preallocated_file_is_truncated_on_completion(tmp_path: Path) -> None:
    """preallocate=true."""
    segment = new_segment(tmp_path, config=LogConfig(preallocate=True, segment_bytes=1 << 20))
    path = Path(segment.log.path)
    assert path.stat().st_size == 1 << 20
    add(segment, 0, sized(100))
    segment.become_inactive()
    assert path.stat().st_size == 100


def test_new_segment_truncates_leftover_files(tmp_path: Path) -> None:
    """A segment with the same base offset was cut off before."""
    (tmp_path / f"{5:020d}.log").write_bytes(b"old")
    (tmp_path / f"{5:020d}.index").write_bytes(b"old" * 8)
    segment = new_segment(tmp_path, 5)
    assert (segment.size_bytes, segment.offset_index.entries) == (0, 0)
    assert Path(segment.log.path).read_bytes() == b""


def test_scan_handles_headers_at_the_window_edge(tmp_path: Path) -> None:
    """For any number of bytes per read."""
    segment = new_segment(tmp_path)
    for offset in range(30):
        add(segment, offset, batch(bytes(3 * offset)))
    handle = segment.log.open().handle
    expected = list(segment.scan(0))
    assert len(expected) == 30
    for window in (61, 62, 64, 100, 1000):
        assert list(scan_entries(LOCAL, handle, 0, segment.size_bytes, window)) == expected


class Counting(FileSystem):
    """Records the reads."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[int] = []

    def pread(self, handle: int, size: int, position: int) -> bytes:
        self.reads.append(size)
        return super().pread(handle, size, position)


def place(entry: Entry) -> BatchPosition:
    return BatchPosition(entry.base_offset, entry.position, entry.position + entry.size_bytes)


def test_sequential_reader_needs_no_search(tmp_path: Path) -> None:
    """One header is read instead of the index and the bytes after its entry."""
    fs = Counting()
    segment = Segment.create(OpenFiles(fs), str(tmp_path), 0, LogConfig(), now_ms=T0, roll_jitter_ms=0)
    for number in range(40):
        add(segment, number, sized(2000))
    segment.become_inactive()
    expected = [place(entry) for entry in segment.scan(0)]

    found = [segment.batch_position(0)]
    fs.reads.clear()
    found += [segment.batch_position(offset) for offset in range(1, 40)]

    assert found == expected
    assert fs.reads == [61] * 39
    assert segment.batch_position(40) is None


def test_readers_one_after_the_other_read_no_header_twice(tmp_path: Path) -> None:
    """The result for the first reader is cached for the next ones."""
    fs = Counting()
    segment = Segment.create(OpenFiles(fs), str(tmp_path), 0, LogConfig(), now_ms=T0, roll_jitter_ms=0)
    for number in range(200):
        add(segment, number, sized(2000))
    expected = [place(entry) for entry in segment.scan(0)]
    assert segment.batch_position(0) == expected[0]
    fs.reads.clear()

    for offset in range(1, 200):
        for behind in (0, 1, 5):
            if offset >= behind:
                assert segment.batch_position(offset - behind) == expected[offset - behind]

    assert fs.reads == [61] * 199


def test_readers_at_other_positions_do_not_interfere(tmp_path: Path) -> None:
    """For any positions the result equals that of a search."""
    segment = new_segment(tmp_path)
    for number in range(200):
        add(segment, number, sized(300))
    expected = {entry.base_offset: entry for entry in segment.scan(0)}

    for step in range(200):
        for start in range(0, 200, 2):
            offset = (start * 7 + step) % 200
            assert segment.find(offset) == expected[offset]
            assert segment.batch_position(offset) == place(expected[offset])


def test_truncation_clears_the_position_cache(tmp_path: Path) -> None:
    """Other batches may be there later, or none."""
    segment = new_segment(tmp_path)
    for number in range(10):
        add(segment, number, sized(300))
    for offset in range(10):
        segment.batch_position(offset)
    segment.begin_rebuild()
    segment.end_rebuild(3 * 300)
    for number in range(3, 8):
        add(segment, number, sized(777))

    expected = {entry.base_offset: entry for entry in segment.scan(0)}
    assert [segment.batch_position(offset) for offset in range(8)] == [place(expected[offset]) for offset in range(8)]
    assert segment.batch_position(8) is None


def test_position_cache_is_released_with_the_file(tmp_path: Path) -> None:
    """A log may have thousands of segments that were read once, so each releases its cache with its descriptor."""
    fs = Counting()
    files = OpenFiles(fs)
    segment = Segment.create(files, str(tmp_path), 0, LogConfig(), now_ms=T0, roll_jitter_ms=0)
    for number in range(10):
        add(segment, number, sized(300))
    segment.become_inactive()
    expected = [place(entry) for entry in segment.scan(0)]
    for times_open in (1, 2):
        reads = []
        for _ in range(2):
            fs.reads.clear()
            assert [segment.batch_position(offset) for offset in range(10)] == expected
            reads.append(len(fs.reads))
        assert [bool(count) for count in reads] == [True, False], times_open
        segment.close()
        assert segment.log.open_file is None


def test_indexes_are_rebuilt_with_a_single_open_file(tmp_path: Path) -> None:
    """Rule H1: the index evicts the log from the open files in the middle of the scan."""
    config = LogConfig(index_interval_bytes=0)
    segment = Segment.create(OpenFiles(LOCAL, 1), str(tmp_path), 0, config, now_ms=T0, roll_jitter_ms=0)
    for offset in range(100):
        add(segment, offset, sized(500, timestamp=T0 + offset), timestamp=T0 + offset)
    segment.become_inactive()
    paths = [Path(segment.offset_index.file.path), Path(segment.time_index.file.path)]
    before = [path.read_bytes() for path in paths]
    segment.rebuild_indexes()
    assert [path.read_bytes() for path in paths] == before


def test_decreasing_offsets_are_reported_once(tmp_path: Path) -> None:
    """The last batch ends before it begins: no index leads to it, even after a rebuild."""
    segment = new_segment(tmp_path, config=LogConfig(index_interval_bytes=1))
    add(segment, 0, batch())
    lying = batch()
    lying[23:27] = (-1).to_bytes(4, "big", signed=True)  # the last offset delta
    add(segment, 1, lying, count=0)
    with pytest.raises(CorruptBatch, match="offsets go back"):
        segment.next_offset()
