"""Directories, segments and writes: facts of the documents that the files of storage show together."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from protocol.records.batch import HEADER_SIZE, parse_header
from protocol.records.compression import Codec
from storage.fs import FileSystem
from storage.index.offset import OffsetIndex
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.open_files import OpenFiles
from tests.support.logs import T0, append, batch, end, idempotent, open_log, read_all, sized
from tests.support.scale import scaled

HOUR = 3_600_000


class Watching(FileSystem):
    """Records the writes to segment files, reads and syncs, and performs them."""

    def __init__(self) -> None:
        self.writes: list[tuple[int, int]] = []
        self.reads = 0
        self.syncs = 0
        self._logs: set[int] = set()

    def open_write(self, path: str, *, create: bool = False, empty: bool = False) -> int:
        handle = super().open_write(path, create=create, empty=empty)
        (self._logs.add if path.endswith(".log") else self._logs.discard)(handle)
        return handle

    def pwrite(self, handle: int, data: bytes, position: int) -> int:  # type: ignore[override]
        if handle in self._logs:
            self.writes.append((position, len(data)))
        return FileSystem.pwrite(handle, data, position)

    def pread(self, handle: int, size: int, position: int) -> bytes:  # type: ignore[override]
        self.reads += 1
        return FileSystem.pread(handle, size, position)

    def sync(self, handle: int) -> None:
        self.syncs += 1
        super().sync(handle)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LogManager]:
    made = LogManager([str(tmp_path)])
    made.lock()
    yield made
    made.close(T0)


def create(manager: LogManager, topic: str, partitions: int, config: LogConfig | None = None) -> list[PartitionLog]:
    return [manager.create(topic, index, bytes(16), config or LogConfig(), T0) for index in range(partitions)]


def partition_directories(root: Path) -> set[str]:
    return {file.name for file in root.iterdir() if file.is_dir()}


def retain(manager: LogManager, now_ms: int = T0) -> None:
    for task in manager.retention_tasks(now_ms):
        task.run()
        task.apply()


# -- directories -----------------------------------------------------------------------------------------------------


def test_a_partition_is_a_directory_of_topic_and_number(manager: LogManager, tmp_path: Path) -> None:
    """S2.1: testTopic with three partitions is testTopic-0, -1 and -2."""
    create(manager, "testTopic", 3)
    assert partition_directories(tmp_path) == {"testTopic-0", "testTopic-1", "testTopic-2"}


def test_two_topics_of_four_partitions_are_eight_directories(manager: LogManager, tmp_path: Path) -> None:
    """S2.2: the example of the documents."""
    create(manager, "report_push", 4)
    create(manager, "launch_info", 4)
    assert partition_directories(tmp_path) == {
        f"{topic}-{index}" for topic in ("report_push", "launch_info") for index in range(4)
    }


def test_several_roots_share_the_partitions(tmp_path: Path) -> None:
    """S2.3: log.dirs has two entries. A record is written to the directory of its partition."""
    manager = LogManager([str(tmp_path / "one"), str(tmp_path / "two")])
    manager.lock()
    for log in create(manager, "t", 4):
        append(log, batch())
    found = {name: partition_directories(tmp_path / name) for name in ("one", "two")}

    assert [len(directories) for directories in found.values()] == [2, 2]
    assert found["one"] | found["two"] == {"t-0", "t-1", "t-2", "t-3"}
    manager.close(T0)


def test_files_of_a_partition_lie_side_by_side(tmp_path: Path) -> None:
    """S2.4, S3.1, S3.2: each segment has a log, two indexes and, for aborted transactions, a third. No directories."""
    log = open_log(tmp_path, LogConfig(segment_bytes=400))
    append(log, idempotent(0, transactional=True))
    end(log, commit=False)
    for _ in range(3):
        append(log, sized(200))
    assert len(log.segments) > 1
    files = list((tmp_path / "orders-0").iterdir())
    of_segments = {file.name for file in files if file.stem.isdigit() and file.suffix != ".snapshot"}

    assert not [file for file in files if file.is_dir()]
    assert of_segments == {
        f"{base:020d}{suffix}" for base in log.segments.base_offsets for suffix in (".log", ".index", ".timeindex")
    } | {f"{0:020d}.txnindex"}


# -- segments --------------------------------------------------------------------------------------------------------


def test_segments_are_named_after_their_own_first_offset(tmp_path: Path) -> None:
    """S3.4: not after the last offset of the previous segment, as some of the documents say."""
    log = open_log(tmp_path, LogConfig(segment_bytes=400))
    for _ in range(10):
        append(log, sized(150))
    names = [int(file.stem) for file in sorted((tmp_path / "orders-0").glob("*.log"))]
    first_offsets = [next(segment.scan(0)).base_offset for segment in log.segments]
    last_offsets = [[entry.last_offset for entry in segment.scan(0)][-1] for segment in log.segments]

    assert names == first_offsets == [0, *(offset + 1 for offset in last_offsets[:-1])]


def test_each_segment_setting_takes_effect_alone(tmp_path: Path) -> None:
    """S3.12, S13.1, S13.7: size, time and full indexes each roll the segment alone. Without them nothing does."""
    log = open_log(tmp_path)
    for _ in range(20):
        append(log, sized(100))
    assert log.segments.base_offsets == [0]
    log.config = LogConfig(segment_bytes=2000)
    append(log, sized(100))
    assert log.segments.base_offsets == [0, 20]
    log.config = LogConfig(segment_ms=168 * HOUR)
    append(log, sized(100, timestamp=T0 + 168 * HOUR), now_ms=T0 + 168 * HOUR)
    assert log.segments.base_offsets == [0, 20]
    append(log, sized(100, timestamp=T0 + 168 * HOUR + 1), now_ms=T0 + 168 * HOUR)
    assert log.segments.base_offsets == [0, 20, 22]
    log.config = LogConfig(segment_index_bytes=24, index_interval_bytes=1)
    log.roll(log.log_end_offset, T0)
    for _ in range(5):
        append(log, sized(100, timestamp=T0 + 170 * HOUR), now_ms=T0 + 170 * HOUR)
    assert log.segments.base_offsets[3:] == [23, 25, 27]


def test_segments_of_500_kb_under_heavy_writing(tmp_path: Path) -> None:
    """S13.8, S3.9: the documents' example at a thousandth. Closed files are as large as fits, not larger."""
    log = open_log(tmp_path, LogConfig(segment_bytes=500_000))
    for number in range(200):
        append(log, sized(9_000 + 13 * number))
    sizes = [file.stat().st_size for file in sorted((tmp_path / "orders-0").glob("*.log"))]

    assert len(sizes) > 4
    assert all(500_000 - 13_000 < size <= 500_000 for size in sizes[:-1])


def test_closed_indexes_have_the_sizes_of_their_entries(tmp_path: Path) -> None:
    """S13.6, S4.7: the sizes differ, because the segment did not roll for a full index."""
    log = open_log(tmp_path, LogConfig(segment_bytes=60_000, segment_index_bytes=1 << 20))
    for size in (100, 1000, 9000):
        for _ in range(70_000 // size):
            append(log, sized(size))
    closed = list(log.segments)[:-1]
    sizes = [Path(segment.offset_index.file.path).stat().st_size for segment in closed]

    assert sizes == [8 * segment.offset_index.entries for segment in closed]
    assert len(set(sizes)) > 1
    assert max(sizes) < 1 << 20


def test_written_parts_never_change_and_writes_go_to_the_end(tmp_path: Path) -> None:
    """S2.10, S17.3: each write starts at the end of the previous one, and closed segments keep their bytes."""
    fs = Watching()
    log = open_log(tmp_path, LogConfig(segment_bytes=2000, index_interval_bytes=1 << 20), fs=fs)
    for _ in range(15):
        append(log, sized(100))
    closed = {file: sha256(file.read_bytes()).digest() for file in (tmp_path / "orders-0").glob("*.log")}
    for _ in range(30):
        append(log, sized(100))
    sums = {file: sha256(file.read_bytes()[:1500]).digest() for file in closed}

    assert [position for position, _ in fs.writes] == [100 * (number % 20) for number in range(45)]
    assert {size for _, size in fs.writes} == {100}
    assert sums == closed
    assert len(log.segments) == 3


def test_nearby_look_ups_do_not_read_the_index_again(tmp_path: Path) -> None:
    """S4.8: the last read part of an index stays in memory. Other brokers map the file."""
    fs = Watching()
    index = OffsetIndex(OpenFiles(fs), str(tmp_path / "0.index"), 0, 0)
    index.make_active(1 << 20)
    for number in range(5000):
        index.append(10 * number, 100 * number + 1)
    index.trim()
    assert index.look_up(20_005) == (20_000, 200_001)
    fs.reads = 0
    for number in range(100):
        assert index.look_up(20_000 + 10 * number) == (20_000 + 10 * number, 200_001 + 100 * number)

    assert fs.reads <= 1


# -- retention and compaction ----------------------------------------------------------------------------------------


def test_reading_removes_nothing(manager: LogManager) -> None:
    """S2.11: retention considers time, size and the log start, never which records were read."""
    (log,) = create(manager, "t", 1, LogConfig(segment_bytes=400, retention_ms=HOUR))
    for _ in range(20):
        append(log, sized(100))
    before = [record.offset for record in read_all(log)]
    retain(manager)

    assert [record.offset for record in read_all(log)] == before == list(range(20))


def test_topics_have_policies_of_their_own(manager: LogManager) -> None:
    """S14.1, S14.3: two topics have the same limits. Only the one with cleanup.policy=delete loses old records."""
    limits = LogConfig(segment_bytes=400, retention_ms=HOUR)
    (deleted,) = create(manager, "deleted", 1, limits)
    (compacted,) = create(manager, "compacted", 1, replace(limits, cleanup_policy=frozenset({"compact"})))
    for log in (deleted, compacted):
        for _ in range(20):
            append(log, batch(bytes(29), key=b"k"))
    retain(manager, T0 + 2 * HOUR)

    assert (deleted.log_start_offset, compacted.log_start_offset) == (20, 0)


def test_a_topic_holds_the_limits_of_its_partitions(manager: LogManager) -> None:
    """S14.12, S2.9: four partitions with 1,200 bytes each hold 4,800. Retention deletes whole files."""
    logs = create(manager, "t", 4, LogConfig(segment_bytes=400, retention_ms=-1, retention_bytes=1200))
    for number, log in enumerate(logs):
        for _ in range(20 + 8 * number):
            append(log, sized(100))
    written = [set(Path(log.path).glob("*.log")) for log in logs]
    retain(manager)
    left = [set(Path(log.path).glob("*.log")) for log in logs]

    assert sum(log.size_bytes for log in logs) == 4 * 1200
    assert [len(files) for files in left] == [3] * 4
    assert all(after < before for before, after in zip(written, left, strict=True))
    assert all(Path(log.active_segment.log.path) in files for log, files in zip(logs, left, strict=True))


def test_age_limits_of_minutes_and_hours(tmp_path: Path) -> None:
    """S14.6: 300 minutes and 24 hours, the examples of one document, against 168 hours of its sample file."""
    for retention_ms in (300 * 60_000, 24 * HOUR, 168 * HOUR):
        manager = LogManager([str(tmp_path / str(retention_ms))])
        manager.lock()
        (log,) = create(manager, "t", 1, LogConfig(retention_ms=retention_ms))
        append(log, batch())
        retain(manager, T0 + retention_ms)
        assert log.log_start_offset == 0
        retain(manager, T0 + retention_ms + 1)
        assert log.log_start_offset == 1
        manager.close(T0)


# -- stored bytes, and when they are forced to the disk --------------------------------------------------------------


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
def test_compressed_batches_are_stored_as_received(codec: Codec, tmp_path: Path) -> None:
    """S9.2: the records are the producer's bytes. Only the header gets its offset and leader epoch."""
    sent = batch(*[b"a value like the others"] * 20, codec=codec)
    log = open_log(tmp_path)
    append(log, batch(b"before"))
    append(log, bytearray(sent), leader_epoch=3)
    stored = log.read(1, 1 << 20, log.log_end_offset)
    assert not isinstance(stored, bytes)
    data = stored.read()

    assert data[HEADER_SIZE:] == sent[HEADER_SIZE:]
    assert parse_header(data)._replace(base_offset=0, leader_epoch=-1) == parse_header(sent)


def test_twenty_similar_records_are_much_smaller_together() -> None:
    """S9.1, S9.7: the codec compresses the whole batch. Records compressed one by one hardly shrink."""
    values = [b'{"user": %d, "page": "/index.html", "agent": "a browser"}' % number for number in range(20)]
    together = len(batch(*values, codec=Codec.GZIP))
    alone = sum(len(batch(value, codec=Codec.GZIP)) for value in values)

    assert 3 * together < len(batch(*values))
    assert 5 * together < alone


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_compression_and_compaction_are_independent(codec: Codec, policy: str, tmp_path: Path) -> None:
    """S9.10: a compacted topic may hold uncompressed batches, and another topic compressed ones."""
    log = open_log(tmp_path, LogConfig(cleanup_policy=frozenset({policy})))
    append(log, batch(b"a", b"b", key=b"k", codec=codec))
    data = (tmp_path / "orders-0" / f"{0:020d}.log").read_bytes()

    assert parse_header(data).codec == codec
    assert [record.value for record in read_all(log)] == [b"a", b"b"]


def test_appends_end_in_the_page_cache(tmp_path: Path) -> None:
    """S16.1, S17.5: an append writes and does not wait for the disk. Every reader sees it at once."""
    fs = Watching()
    log = open_log(tmp_path, fs=fs)
    fs.syncs = 0
    for _ in range(50):
        append(log, sized(1000))

    assert fs.syncs == 0
    assert log.recovery_point == 0
    assert (tmp_path / "orders-0" / f"{0:020d}.log").stat().st_size == 50_000
    assert len(read_all(log)) == 50


def test_the_process_caches_nothing_that_it_writes(tmp_path: Path) -> None:
    """S17.7: the page cache is the only cache. The heap does not grow with the log."""
    log = open_log(tmp_path)
    data = batch(bytes(100_000))
    for _ in range(20):
        append(log, bytearray(data))
    tracemalloc.start()
    try:
        for _ in range(scaled(100)):
            append(log, bytearray(data))
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert log.size_bytes >= 120 * len(data)
    assert grown < 1 << 20
