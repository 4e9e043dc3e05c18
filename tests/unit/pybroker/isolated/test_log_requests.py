"""Data directories as rows: all records, ranges by offset or time, transactions, and damaged files."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from protocol.records.batch import entry_at, parse_header
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.entries import iter_records
from pybroker.source.bounds import OFFSET, Bound, Bounds, at_offset, at_time
from pybroker.source.columns import COLUMNS
from pybroker.source.errors import DamagedLog, DataLoss, NoSuchTime, UnknownPartition, UnusableOption
from storage.checkpoints import LOG_START_OFFSETS, format_offsets, read_offsets
from storage.fs import LOCAL
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from tests.support.logs import T0, append, batch, close, crash, end, open_log, read_all
from tests.support.record_readers import ask, offsets, plan, rows, values
from tests.support.recorded_logs import recorded_directories

SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100)


def written(root: Path) -> PartitionLog:
    """A log of several segments with batches of three records, a second apart."""
    log = open_log(root, SMALL)
    for number in range(0, 60, 3):
        append(log, batch(*[b"value-%d" % (number + each) for each in range(3)], timestamp=T0 + number * 1000))
    assert len(log.segments) > 3
    return log


def test_all_records_come_in_order_with_all_their_columns(tmp_path: Path) -> None:
    """They have the names and types of Spark's Kafka source. Headers are null if there are none."""
    log = open_log(tmp_path)
    builder = BatchBuilder(codec=Codec.ZSTD)
    builder.append(T0, b"key", b"one", (("name", b"content"), ("null", None)))
    builder.append(T0 + 1, None, None)
    append(log, bytearray(builder.build()))
    close(log)

    found = rows(tmp_path / "orders-0", ("headers", "key", "value", "topic", "partition", "offset", "timestampType"))

    constant = {"topic": "orders", "partition": 0, "timestampType": 0}
    headers = [{"key": "name", "value": b"content"}, {"key": "null", "value": None}]
    assert [
        {"headers": headers, "key": b"key", "value": b"one", "offset": 0, **constant},
        {"headers": None, "key": None, "value": None, "offset": 1, **constant},
    ] == found
    first, second = rows(tmp_path / "orders-0", ("timestamp",))
    assert datetime.fromtimestamp(T0 / 1000, UTC) == first["timestamp"]
    assert timedelta(milliseconds=1) == second["timestamp"] - first["timestamp"]


def test_splits_are_the_segments(tmp_path: Path) -> None:
    """Each goes from its base offset to that of the next, without gap or overlap."""
    log = written(tmp_path)

    splits = plan(tmp_path / "orders-0")

    assert log.segments.base_offsets == [split["start"] for split in splits]
    assert [*log.segments.base_offsets[1:], 60] == [split["end"] for split in splits]
    assert [b"value-%d" % number for number in range(60)] == values(tmp_path / "orders-0")


def test_deleted_start_offset_is_an_error(tmp_path: Path) -> None:
    """The partition's log now begins later."""
    written(tmp_path)
    (tmp_path / LOG_START_OFFSETS).write_bytes(format_offsets({("orders", 0): 25}))
    with pytest.raises(DataLoss, match="offset 24 was deleted: the log begins at 25"):
        plan(tmp_path, start=Bounds(None, {("orders", 0): Bound(OFFSET, 24)}))
    assert plan(tmp_path, start=Bounds(None, {("orders", 0): Bound(OFFSET, 25)}))[0]["start"] == 25


@pytest.mark.parametrize(("start", "behind"), [(0, 60), (1, 2), (17, 44), (59, 60), (30, 30), (44, 17), (60, 99)])
def test_range_may_begin_and_end_within_a_batch(tmp_path: Path, start: int, behind: int) -> None:
    written(tmp_path)

    found = offsets(tmp_path / "orders-0", start=at_offset(start), end=at_offset(behind))

    assert list(range(start, min(60, behind))) == found


def test_partitions_have_their_own_bounds(tmp_path: Path) -> None:
    """Other partitions are not read. A missing one is an error."""
    written(tmp_path)
    shutil.copytree(tmp_path / "orders-0", tmp_path / "orders-1")
    shutil.copytree(tmp_path / "orders-0", tmp_path / "orders-2")
    start, end = (
        Bounds(None, {("orders", 0): Bound(OFFSET, first), ("orders", 2): Bound(OFFSET, second)})
        for first, second in ((50, 3), (55, 5))
    )

    splits = plan(tmp_path, start=start, end=end, assigned=[("orders", 2), ("orders", 0)])

    assert [(each["partition"], each["start"], each["end"]) for each in splits][:1] == [(0, 50, splits[0]["end"])]
    assert splits[-1]["end"] == 5
    assert sum(each["end"] - each["start"] for each in splits) == 7
    with pytest.raises(UnknownPartition, match="has no partition orders-7"):
        plan(tmp_path, assigned=[("orders", 0), ("orders", 7)])


def test_end_offsets_exclude_unfinished_data(tmp_path: Path) -> None:
    """The active segment, and everything from the first open transaction on."""
    log = written(tmp_path)
    wanted = {"path": str(tmp_path), "topics": ["orders"]}
    last = log.segments.base_offsets[-1]

    assert ask("log_ends", committed=False, **wanted)[0] == [["orders", 0, 0, last, 60]]
    assert ask("log_ends", committed=True, **wanted)[0] == [["orders", 0, 0, last, 60]]
    close(log)
    checkpoint = {("orders", 0): 59}
    (tmp_path / LOG_START_OFFSETS).write_bytes(format_offsets(checkpoint))
    assert ask("log_ends", committed=False, **wanted)[0] == [["orders", 0, 59, 59, 60]]


@pytest.mark.parametrize("first", [0, 1, 29, 30, 58, 59])
def test_time_selects_the_first_record_no_older(tmp_path: Path, first: int) -> None:
    written(tmp_path)
    times = [T0 + number // 3 * 3000 + number % 3 for number in range(60)]

    found = offsets(tmp_path / "orders-0", start=at_time(times[first]))

    assert list(range(first, 60)) == found
    assert list(range(first)) == offsets(tmp_path / "orders-0", end=at_time(times[first]))


def test_time_after_all_records_is_the_end_or_an_error(tmp_path: Path) -> None:
    written(tmp_path)
    late = T0 + 1_000_000

    assert offsets(tmp_path / "orders-0", start=at_time(late)) == []
    with pytest.raises(NoSuchTime, match="at or after"):
        plan(tmp_path / "orders-0", start=at_time(late, late_means_latest=False))


@pytest.mark.parametrize("damage", [b"", b"\x7f" * 40, bytes(4096)])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_damaged_index_loses_no_record(tmp_path: Path, suffix: str, damage: bytes) -> None:
    """An index entry is only used if a batch confirms it."""
    log = written(tmp_path)
    close(log)
    for path in (tmp_path / "orders-0").glob(f"*{suffix}"):
        path.write_bytes(damage)

    assert list(range(31, 60)) == offsets(tmp_path / "orders-0", start=at_offset(31))
    assert list(range(31, 60)) == offsets(tmp_path / "orders-0", start=at_time(T0 + 30_001))


def test_directory_of_a_running_broker_is_readable(tmp_path: Path) -> None:
    """Its index files are preallocated, and its last entries are not written yet."""
    log = written(tmp_path)

    assert list(range(60)) == offsets(tmp_path / "orders-0")
    append(log, batch(b"more"))
    assert list(range(55, 61)) == offsets(tmp_path / "orders-0", start=at_offset(55))


def test_reading_changes_no_file(tmp_path: Path) -> None:
    log = written(tmp_path)
    crash(log)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.rglob("*") if path.is_file()}

    rows(tmp_path / "orders-0", committed=True, start=at_time(T0 + 5000))

    assert before == {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("tail", [b"\0" * 500, b"\xff" * 90, bytes(batch(b"cut", b"off"))[:70]])
def test_log_ends_before_an_incomplete_batch(tmp_path: Path, tail: bytes) -> None:
    """As after a recovery."""
    log = written(tmp_path)
    path = Path(log.segments[-1].log.path)
    crash(log)
    path.write_bytes(path.read_bytes() + tail)

    for committed in (False, True):
        assert list(range(60)) == offsets(tmp_path / "orders-0", committed=committed)
    assert offsets(tmp_path / "orders-0", start=at_time(T0 + 1_000_000)) == []


def test_preallocated_segments_are_readable(tmp_path: Path) -> None:
    """With `preallocate`, zeros follow the last record of the active segment."""
    log = open_log(tmp_path, LogConfig(segment_bytes=500, index_interval_bytes=100, preallocate=True))
    for number in range(20):
        append(log, batch(b"value-%d" % number, timestamp=T0 + number))
    append(log, batch(b"open", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))

    assert Path(log.segments[-1].log.path).read_bytes().endswith(bytes(100))
    assert list(range(21)) == offsets(tmp_path / "orders-0")
    assert list(range(20)) == offsets(tmp_path / "orders-0", committed=True)
    assert list(range(19, 21)) == offsets(tmp_path / "orders-0", start=at_time(T0 + 19))
    assert offsets(tmp_path / "orders-0", start=at_time(T0 + 20)) == []


def test_damage_in_the_middle_is_an_error(tmp_path: Path) -> None:
    """Only the end of the last segment can be incomplete without a loss."""
    log = written(tmp_path)
    path = Path(log.segments[1].log.path)
    close(log)
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)

    with pytest.raises(DamagedLog, match="checksum"):
        rows(tmp_path / "orders-0")


def test_deleted_records_are_not_read(tmp_path: Path) -> None:
    """DeleteRecords can move the start into a segment."""
    written(tmp_path)
    (tmp_path / LOG_START_OFFSETS).write_bytes(format_offsets({("orders", 0): 25, ("other", 0): 50}))

    assert list(range(25, 60)) == offsets(tmp_path / "orders-0")


@pytest.mark.parametrize("segment_bytes", [300, 1 << 20])
@pytest.mark.parametrize("stopped", [True, False])
def test_read_committed_skips_aborted_records(tmp_path: Path, segment_bytes: int, stopped: bool) -> None:
    """Aborted transactions come from the transaction indexes, and from the records behind the newest snapshot."""
    log = open_log(tmp_path, LogConfig(segment_bytes=segment_bytes, index_interval_bytes=100))
    of_seven = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    append(log, batch(b"plain-1"))
    append(log, batch(b"aborted-1", b"aborted-2", base_sequence=0, **of_seven))
    append(log, batch(b"plain-2"))
    end(log, commit=False)
    append(log, batch(b"committed", base_sequence=2, **of_seven))
    end(log, commit=True)
    append(log, batch(b"aborted-3", base_sequence=3, **of_seven))
    end(log, commit=False)
    append(log, batch(b"plain-3"))
    if stopped:
        close(log)

    committed = [b"plain-1", b"plain-2", b"committed", b"plain-3"]
    assert committed == values(tmp_path / "orders-0", committed=True)
    assert set(values(tmp_path / "orders-0")) == {*committed, b"aborted-1", b"aborted-2", b"aborted-3"}


def test_read_committed_ends_at_the_first_open_transaction(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(b"plain-1"))
    append(log, batch(b"open", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True))
    append(log, batch(b"plain-2"))

    assert values(tmp_path / "orders-0", committed=True) == [b"plain-1"]
    close(log)
    assert values(tmp_path / "orders-0", committed=True) == [b"plain-1"]
    assert values(tmp_path / "orders-0") == [b"plain-1", b"open", b"plain-2"]


def test_log_directory_has_its_topics_without_internal_ones(tmp_path: Path) -> None:
    written(tmp_path)
    shutil.copytree(tmp_path / "orders-0", tmp_path / "orders-10")
    shutil.copytree(tmp_path / "orders-0", tmp_path / "orders-2")
    shutil.copytree(tmp_path / "orders-0", tmp_path / "other-0")
    shutil.copytree(tmp_path / "orders-0", tmp_path / "__consumer_offsets-0")

    def places(**wanted: list[str]) -> list[tuple[str, int]]:
        return list(dict.fromkeys((split["topic"], split["partition"]) for split in plan(tmp_path, **wanted)))

    assert places() == [("orders", 0), ("orders", 2), ("orders", 10), ("other", 0)]
    assert places(topics=["other"]) == [("other", 0)]
    with pytest.raises(UnknownPartition, match="missing"):
        plan(tmp_path, topics=["other", "missing"])


def test_other_directories_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty-0").mkdir()

    with pytest.raises(UnusableOption, match="not a directory"):
        plan(tmp_path / "nowhere")
    with pytest.raises(DamagedLog, match="no segment"):
        plan(tmp_path)
    with pytest.raises(UnknownPartition):
        plan(tmp_path / "empty-0")


@pytest.mark.parametrize(
    "directory",
    [path for path in recorded_directories(v2_only=False) if "damaged" not in path.parent.name],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_directories_of_apache_kafka_are_readable(directory: Path) -> None:
    """All formats and codecs, compacted logs, logs after a kill, and logs with deleted records."""
    expected = []
    partition = directory.name.rpartition("-")
    deleted = read_offsets(LOCAL, str(directory.parent / LOG_START_OFFSETS)).get((partition[0], int(partition[2])), 0)
    for path in sorted(directory.glob("*.log")):
        data, position = path.read_bytes(), 0
        while (entry := entry_at(data, position)) is not None:
            _, size, magic = entry
            if magic < 2 or not parse_header(data, position).is_control:
                records = iter_records(data[position : position + size])
                expected += [
                    (each.offset, each.timestamp, each.key, each.value, each.headers)
                    for each in records
                    if each.offset >= deleted
                ]
            position += size

    found = [
        (
            row["offset"],
            row["timestamp"] // timedelta(milliseconds=1),
            row["key"],
            row["value"],
            tuple((each["key"], each["value"]) for each in row["headers"] or ()),
        )
        for row in since_epoch(rows(directory, COLUMNS))
    ]

    assert expected == found


def since_epoch(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with timestamps as durations since 1970, which may be negative."""
    return [{**row, "timestamp": row["timestamp"] - datetime(1970, 1, 1, tzinfo=UTC)} for row in found]


def test_rows_equal_those_of_the_storage_engine(tmp_path: Path) -> None:
    log = written(tmp_path)

    expected = [(record.offset, record.value) for record in read_all(log)]

    assert expected == [(row["offset"], row["value"]) for row in rows(tmp_path / "orders-0")]
