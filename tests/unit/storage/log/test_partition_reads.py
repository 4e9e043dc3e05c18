"""Reads of a partition's log: by offset, by size, up to an end offset, in gaps."""

from pathlib import Path

import pytest

from protocol.records.entries import iter_records
from storage.errors import OffsetOutOfRange
from storage.fetch_slice import FetchSlice
from storage.fs import LOCAL
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from storage.segment.files import LOG_SUFFIX, file_name
from tests.support.batch_values import patch_in_place
from tests.support.logs import T0, append, batch, bytes_of, close, open_log, read_all, sized

SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100)


def test_read_finds_every_offset_in_every_segment(tmp_path: Path) -> None:
    """S3.11, S4.9: first, last and middle offsets; near the end and far from it; in open and reopened logs."""
    log = open_log(tmp_path, LogConfig(segment_bytes=2000, index_interval_bytes=150))
    for number in range(120):
        append(log, batch(*(b"%d" % (3 * number + part) for part in range(3))))
    for _ in range(2):
        assert len(log.segments) > 4
        for offset in range(360):
            records = list(iter_records(bytes_of(log.read(offset, 1, 360))))
            assert records[0].offset <= offset <= records[-1].offset
            assert records[offset - records[0].offset].value == b"%d" % offset
        close(log)
        log = open_log(tmp_path, log.config, clean=True)


def test_read_is_limited_by_bytes_after_the_first_batch(tmp_path: Path) -> None:
    """S4.14: at most max_bytes, which may cut the last batch; one whole batch if requested."""
    log = open_log(tmp_path)
    for _ in range(5):
        append(log, sized(100))
    assert len(log.read(0, 1 << 20, 5)) == 500
    assert len(log.read(0, 250, 5)) == 250
    assert len(log.read(1, 1, 5)) == 100
    assert len(log.read(1, 100, 5, min_one_batch=False)) == 100
    assert len(log.read(1, 99, 5, min_one_batch=False)) == 0
    assert len(log.read(1, 0, 5, min_one_batch=False)) == 0
    close(log)
    log = open_log(tmp_path, clean=True)
    assert [len(log.read(0, size, 5)) for size in (1, 250, 1 << 20)] == [100, 250, 500]
    assert len(log.read(1, 99, 5, min_one_batch=False)) == 0


def test_read_ends_at_the_end_offset(tmp_path: Path) -> None:
    """Nothing is returned at or above the high watermark or last stable offset."""
    log = open_log(tmp_path, SMALL)
    for _ in range(12):
        append(log, sized(100))
    for bound in range(13):
        assert [record.offset for record in read_all(log, 0, bound)] == list(range(bound))
    assert log.read(5, 1000, 5) == b""
    assert log.read(5, 1000, 3) == b""
    assert log.read(12, 1000, 12) == b""


@pytest.mark.parametrize("offset", [-1, 4, 13, 1 << 40])
def test_offset_out_of_range(offset: int, tmp_path: Path) -> None:
    """Below the log start offset, or above the log end offset."""
    log = open_log(tmp_path)
    for _ in range(12):
        append(log, batch())
    log.delete_records(5)
    with pytest.raises(OffsetOutOfRange) as caught:
        log.read(offset, 1000, 12)
    assert (caught.value.log_start_offset, caught.value.log_end_offset) == (5, 12)
    assert log.read(5, 1000, 12)
    assert log.read(12, 1000, 12) == b""


def test_read_in_a_gap_returns_the_next_batch(tmp_path: Path) -> None:
    """Compaction leaves gaps inside a segment and between segments."""
    (tmp_path / "orders-0").mkdir()
    for offsets in ((0, 10), (20, 30)):
        records = [batch(b"%d" % offset) for offset in offsets]
        for data, offset in zip(records, offsets, strict=True):
            patch_in_place(data, 0, offset, 0)
        (tmp_path / "orders-0" / file_name(offsets[0], LOG_SUFFIX)).write_bytes(b"".join(records))
    log = open_log(tmp_path)
    assert len(log.segments) == 2
    for offset, expected in [(0, 0), (1, 10), (10, 10), (11, 20), (25, 30), (30, 30)]:
        assert next(iter_records(bytes_of(log.read(offset, 1, 31)))).offset == expected


def test_slice_outlives_its_segment(tmp_path: Path) -> None:
    """Rule H1: the bytes stay readable after the segment is deleted and closed."""
    log = open_log(tmp_path)
    append(log, batch(b"kept"))
    part = log.read(0, 1000, 1)
    assert isinstance(part, FetchSlice)
    handle = part.fileno()
    for segment in log.segments:
        segment.remove_files()
    others = [open(tmp_path / str(number), "wb") for number in range(5)]  # noqa: SIM115
    assert handle not in [other.fileno() for other in others]
    for other in others:
        other.close()
    assert next(iter_records(part.read())).value == b"kept"
    part.release()
    with pytest.raises(ValueError, match="released"):
        part.fileno()


@pytest.mark.parametrize("writable", [True, False])
def test_awaited_batch_is_in_memory_as_in_the_file(tmp_path: Path, writable: bool) -> None:
    """Only for a waiting reader, and once. Reads of all or part of it, with or without the records before it."""
    log = open_log(tmp_path)
    for number in range(3):
        log.awaited = number == 1
        data = sized(100 + number)
        append(log, bytearray(data) if writable else bytes(data), leader_epoch=4)
        parts = {offset: log.read(offset, 1 << 20, number + 1) for offset in range(number + 1)}
        for part in parts.values():
            assert isinstance(part, FetchSlice)
            in_file = LOCAL.pread(part.fileno(), len(part), part.position)
            assert part.read() == in_file
            assert part.read(10, 20) == in_file[10:30]
            assert part.in_memory in (b"", in_file)
        kept = [offset for offset, part in parts.items() if isinstance(part, FetchSlice) and part.in_memory]
        assert kept == ([1] if number == 1 else [])
        assert not log.awaited
        shortened = log.read(number, 50, number + 1, min_one_batch=True)
        assert len(shortened) == 100 + number
    close(log)


def test_large_awaited_batch_is_not_kept_in_memory(tmp_path: Path) -> None:
    """Large batches are sent by sendfile."""
    log = open_log(tmp_path)
    log.awaited = True
    append(log, sized(5000))
    part = log.read(0, 1 << 20, 1)
    assert isinstance(part, FetchSlice)
    assert not part.in_memory
    close(log)


def test_roll_and_truncation_clear_the_awaited_batch(tmp_path: Path) -> None:
    """A roll also clears the batch in memory."""
    log = open_log(tmp_path)
    log.awaited = True
    append(log, sized(100))
    log.roll(1, 0)
    part = log.read(0, 1 << 20, 1)
    assert isinstance(part, FetchSlice)
    assert not part.in_memory
    close(log)


def test_limited_number_of_logs_keep_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a log without further appends would keep it for ever; a closed log has none."""
    monkeypatch.setattr("storage.log.local_log._KEPT_BATCHES", 2)
    manager = LogManager([str(tmp_path)])
    manager.lock()
    logs = [manager.create("t", index, bytes(range(16)), LogConfig(), T0) for index in range(3)]
    for log in (logs[0], logs[1], logs[0], logs[2]):
        log.awaited = True
        append(log, sized(100))

    def has_one(log: PartitionLog) -> bool:
        part = log.read(log.log_end_offset - 1, 1 << 20, log.log_end_offset)
        return isinstance(part, FetchSlice) and bool(part.in_memory)

    assert [has_one(log) for log in logs] == [False, True, True]
    manager.delete("t", 1, "0" * 32, T0)
    assert list(manager.directories[0].keeps_batch) == [logs[2]]
    manager.close(T0)
    assert not manager.directories[0].keeps_batch
