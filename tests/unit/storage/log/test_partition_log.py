"""A partition's log: transactions, epochs, timestamps; deleting, truncating, closing."""

import tracemalloc
from pathlib import Path

import pytest

from protocol.records.batch import iter_batches
from protocol.records.compression import Codec
from storage.append.header_validation import AppendOrigin
from storage.errors import (
    InvalidProducerEpoch,
    InvalidRecords,
    LogOffline,
    OffsetOutOfRange,
    TransactionCoordinatorFenced,
)
from storage.fetch_slice import FetchSlice
from storage.log.aborted_transactions import fetch_upper_bound
from storage.log_config import LogConfig
from tests.support.bombs import large_record, small_records
from tests.support.logs import T0, append, batch, close, crash, end, idempotent, open_log, read_all, sized

SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100)


# -- transactions, epochs, timestamps --------------------------------------------------------------------------------


def test_open_transaction_limits_read_committed_consumers(tmp_path: Path) -> None:
    """The last stable offset stops there, and aborted transactions are listed for overlapping ranges."""
    log = open_log(tmp_path, SMALL)
    append(log, batch(b"plain"))
    append(log, idempotent(0, transactional=True))
    append(log, batch(b"after"))
    assert (log.last_stable_offset, log.high_watermark) == (1, 3)
    assert [record.value for record in read_all(log, 0, log.last_stable_offset)] == [b"plain"]
    end(log, commit=False)
    assert log.last_stable_offset == log.log_end_offset == 4
    append(log, idempotent(1, transactional=True))
    end(log, commit=True)
    aborted = log.aborted_transactions(0, 6)
    assert aborted == [(7, 1, 3, 4)]
    assert log.aborted_transactions(4, 6) == []
    assert log.aborted_transactions(0, 1) == []


def test_transaction_is_indexed_in_its_last_segment(tmp_path: Path) -> None:
    """Its entry is in the segment of its marker."""
    log = open_log(tmp_path, LogConfig(segment_bytes=200))
    for sequence in range(6):
        append(log, idempotent(sequence, transactional=True))
    end(log, commit=False)
    append(log, batch())
    assert len(log.segments) > 3
    assert log.aborted_transactions(0, 2) == [(7, 0, 6, 7)]
    part = log.read(0, 10_000, 8)
    assert isinstance(part, FetchSlice)
    assert fetch_upper_bound(log, 0, part) == log.segments[1].base_offset


def test_upper_bound_of_a_fetch_comes_from_the_index(tmp_path: Path) -> None:
    """As in Apache Kafka: the first entry at or after the end of the records that were read."""
    log = open_log(tmp_path, LogConfig(index_interval_bytes=100))
    for _ in range(10):
        append(log, sized(100))
    part = log.read(0, 250, 10)
    assert isinstance(part, FetchSlice)
    assert fetch_upper_bound(log, 0, part) == 4
    whole = log.read(3, 10_000, 10)
    assert isinstance(whole, FetchSlice)
    assert fetch_upper_bound(log, 3, whole) == 10


def test_markers_are_checked(tmp_path: Path) -> None:
    """The epochs of producer and coordinator are checked, and that the marker ends a transaction."""
    log = open_log(tmp_path)
    append(log, idempotent(0, transactional=True, epoch=2))
    with pytest.raises(InvalidProducerEpoch):
        end(log, commit=True, epoch=1)
    end(log, commit=True, epoch=2, coordinator_epoch=5)
    with pytest.raises(TransactionCoordinatorFenced):
        end(log, commit=True, epoch=2, coordinator_epoch=4)
    with pytest.raises(InvalidRecords):
        append(log, batch(b"x", control=True, producer_id=7, producer_epoch=2), origin=AppendOrigin.COORDINATOR)


def test_leader_epochs_begin_at_their_first_batch(tmp_path: Path) -> None:
    """When a leader takes over, its epoch begins at the end of the log."""
    log = open_log(tmp_path)
    log.assign_leader_epoch(0)
    append(log, batch(), leader_epoch=0)
    append(log, batch(), leader_epoch=0)
    log.assign_leader_epoch(2)
    append(log, batch(), leader_epoch=2)
    assert log.leader_epochs.entries == ((0, 0), (2, 2))
    assert log.end_offset_for_epoch(0) == (0, 2)
    assert log.end_offset_for_epoch(1) == (0, 2)
    assert log.end_offset_for_epoch(2) == (2, 3)
    assert log.end_offset_for_epoch(3) == (-1, -1)


@pytest.mark.parametrize("clean", [True, False])
def test_epoch_of_a_start_is_written_with_its_first_batch(clean: bool, tmp_path: Path) -> None:
    """Each start has a new epoch for every partition; without an append no file is written."""
    stop = close if clean else crash
    log = open_log(tmp_path)
    log.assign_leader_epoch(0)
    append(log, batch(b"a"), leader_epoch=0)
    stop(log)
    path = tmp_path / "orders-0/leader-epoch-checkpoint"
    written = path.stat()
    for epoch in (2, 4):
        log = open_log(tmp_path, clean=clean)
        log.assign_leader_epoch(epoch)
        assert log.leader_epochs.entries == ((0, 0), (epoch, 1))
        assert log.end_offset_for_epoch(0) == (0, 1)
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (written.st_ino, written.st_mtime_ns)
        if epoch == 2:
            stop(log)
    append(log, batch(b"b"), leader_epoch=4)
    assert path.read_bytes() == b"0\n2\n0 0\n4 1\n"
    assert log.leader_epochs.path in log.unsynced
    crash(log)
    assert open_log(tmp_path, clean=False).leader_epochs.entries == ((0, 0), (4, 1))


def test_offset_for_timestamp_equals_a_scan(tmp_path: Path) -> None:
    """S5.5, S5.6, S5.9: segments with timestamps 1-100, 101-200, 201-300; also out of order, compressed, reopened."""
    log = open_log(tmp_path, LogConfig(segment_bytes=1500, index_interval_bytes=100))
    for number in range(60):
        timestamp = T0 + 5 * number - (40 if number % 7 == 3 else 0)
        append(log, batch(b"a", b"b", timestamp=timestamp, codec=Codec.GZIP if number % 2 else Codec.NONE))
    for _ in range(2):
        records = read_all(log)
        assert len(log.segments) > 2
        for target in range(T0 - 50, T0 + 310, 3):
            found = log.offset_for_timestamp(target)
            expected = next(
                ((record.timestamp, record.offset) for record in records if record.timestamp >= target), None
            )
            assert (None if found is None else found[:2]) == expected
        latest = log.max_timestamp()
        assert latest is not None
        largest = max(record.timestamp for record in records)
        assert latest == (largest, next(record.offset for record in records if record.timestamp == largest), 0)
        close(log)
        log = open_log(tmp_path, log.config, clean=True)
    log.delete_records(30)
    found = log.offset_for_timestamp(T0)
    assert found is not None
    assert found.offset == 30


def test_time_look_ups_in_an_empty_log(tmp_path: Path) -> None:
    """Nothing is found; without timestamps the largest timestamp is that of the first record."""
    log = open_log(tmp_path)
    assert log.offset_for_timestamp(0) is None
    assert log.max_timestamp() is None
    append(log, batch(timestamp=-1))
    assert log.max_timestamp() == (-1, 0, 0)


def test_huge_batches_are_found_by_their_start(tmp_path: Path) -> None:
    """A look-up by time neither fills the memory nor blocks the event loop."""
    log = open_log(tmp_path)
    append(log, batch(b"first"))
    for size in (1 << 21, 1 << 27):  # more records than the limit; more bytes than the limit
        bomb = small_records(size, Codec.ZSTD)
        [(_, header)] = iter_batches(bomb)
        offset = append(log, bomb, now_ms=header.max_timestamp)
        for timestamp in (header.max_timestamp, header.max_timestamp - 1):
            tracemalloc.start()
            found = log.offset_for_timestamp(timestamp)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert found == (header.max_timestamp, offset, 0)
            assert peak < 100 << 20
        log.delete_records(offset + 7)
        assert log.offset_for_timestamp(header.max_timestamp) == (header.max_timestamp, offset + 7, 0)


def test_few_batches_with_a_wrong_timestamp_are_opened(tmp_path: Path) -> None:
    """After 16 such batches the header of the next one is trusted."""
    log = open_log(tmp_path)
    lying = large_record(100, Codec.GZIP)
    [(_, header)] = iter_batches(lying)
    for _ in range(16):
        append(log, lying, now_ms=header.max_timestamp)
    assert log.offset_for_timestamp(header.max_timestamp) is None
    append(log, lying, now_ms=header.max_timestamp)
    assert log.offset_for_timestamp(header.max_timestamp) == (header.max_timestamp, 16, 0)


# -- deleting, truncating, closing -----------------------------------------------------------------------------------


def test_delete_records_raises_the_log_start(tmp_path: Path) -> None:
    """S14.17: also inside a segment; never lower, never above the high watermark."""
    log = open_log(tmp_path, SMALL)
    for epoch in range(3):
        for _ in range(4):
            append(log, sized(100), leader_epoch=epoch)
    assert log.delete_records(6) == 6
    assert log.delete_records(3) == 6
    assert log.leader_epochs.entries == ((1, 6), (2, 8))
    assert [record.offset for record in read_all(log)] == list(range(6, 12))
    for offset in (13, -1):
        with pytest.raises(OffsetOutOfRange):
            log.delete_records(offset)
    assert log.delete_records(12) == 12
    assert append(log, batch()) == 12


def test_high_watermark_of_a_replicated_log_is_set(tmp_path: Path) -> None:
    """It follows the log end only if there is one replica."""
    log = open_log(tmp_path)
    log.replicated = True
    append(log, batch())
    append(log, batch())
    assert (log.high_watermark, log.last_stable_offset) == (0, 0)
    log.advance_high_watermark(1)
    assert (log.high_watermark, log.last_stable_offset) == (1, 1)
    log.advance_high_watermark(99)
    log.advance_high_watermark(0)
    assert log.high_watermark == 2


def test_closed_log_is_offline(tmp_path: Path) -> None:
    """For example the log of a deleted topic."""
    log = open_log(tmp_path)
    append(log, batch())
    close(log)
    for use in (lambda: append(log, batch()), lambda: log.read(0, 1, 1), lambda: log.delete_records(1)):
        with pytest.raises(LogOffline):
            use()


def test_few_descriptors_serve_many_segments(tmp_path: Path) -> None:
    """With a limit for open files, all segments are readable and few are open."""
    log = open_log(tmp_path, LogConfig(segment_bytes=100))
    log.directory.files.capacity = 8
    for number in range(40):
        append(log, batch(b"%d" % number))
    assert [record.value for record in read_all(log)] == [b"%d" % number for number in range(40)]
    assert len(log.directory.files) <= 8
