"""The log of a replica: a leader's batches, and the high watermark."""

from __future__ import annotations

from pathlib import Path

import pytest

from protocol.records.buffer import Buffer
from storage.errors import CorruptRecords, UnexpectedAppendOffset
from storage.fs import FileSystem
from storage.log.offset_checkpoints import stored_high_watermarks
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from tests.support.logs import (
    T0,
    TOPIC_ID,
    append,
    batch,
    bytes_of,
    crash,
    end,
    idempotent,
    open_log,
    opened,
    sized,
    started,
)

SMALL = LogConfig(segment_bytes=300, index_interval_bytes=100, segment_index_bytes=240)


def filled(root: Path) -> PartitionLog:
    """Return a log with ten batches of 100 bytes."""
    log = open_log(root)
    for number in range(10):
        append(log, sized(100, timestamp=T0 + number), leader_epoch=number // 4)
    return log


# -- a leader's batches ----------------------------------------------------------------------------------------------


def test_batches_of_several_segments_are_appended_together(tmp_path: Path) -> None:
    writes: list[int] = []

    class Counting(FileSystem):
        def pwrite(self, handle: int, data: Buffer, position: int) -> int:  # type: ignore[override]
            writes.append(len(data))
            return super().pwrite(handle, data, position)

    leader = filled(tmp_path / "leader")
    append(leader, idempotent(0, transactional=True), leader_epoch=4)
    end(leader, commit=False, leader_epoch=4)
    data = bytes_of(leader.read(0, 1 << 20, leader.log_end_offset))
    follower = open_log(tmp_path / "follower", LogConfig(segment_bytes=500), fs=Counting())
    follower.append_replicated(memoryview(data + data[:50]), now_ms=T0)
    assert b"".join(bytes_of(follower.read(each.base_offset, 1 << 20, 12)) for each in follower.segments) == data
    assert [each.base_offset for each in follower.segments] == [0, 5, 10]
    assert [size for size in writes if size > 100] == [500, 500, len(data) - 1000]
    assert follower.leader_epochs.entries == leader.leader_epochs.entries
    assert follower.producer_state.producers.keys() == {7}
    assert follower.aborted_transactions(0, 12) == leader.aborted_transactions(0, 12)
    assert follower.log_end_offset == leader.log_end_offset == 12


def test_batches_of_a_later_epoch_wait(tmp_path: Path) -> None:
    """The leader of that epoch will send them (KAFKA-18723)."""
    leader = filled(tmp_path / "leader")
    data = bytes_of(leader.read(0, 1 << 20, 10))
    follower = open_log(tmp_path / "follower")
    follower.append_replicated(memoryview(data), now_ms=T0, max_epoch=1)
    assert follower.log_end_offset == 8


def test_length_beyond_the_response_ends_it(tmp_path: Path) -> None:
    """It looks like a batch that the response cuts."""
    leader = filled(tmp_path / "leader")
    data = bytearray(bytes_of(leader.read(0, 1 << 20, 10)))
    data[508] ^= 0x41
    follower = open_log(tmp_path / "follower")
    follower.append_replicated(memoryview(data), now_ms=T0)
    assert follower.log_end_offset == 5


@pytest.mark.parametrize("at", [0, 3, 16, 30, 60, 99])
def test_damaged_batch_stops_all_of_a_response(tmp_path: Path, at: int) -> None:
    leader = filled(tmp_path / "leader")
    data = bytearray(bytes_of(leader.read(0, 1 << 20, 10)))
    data[500 + at] ^= 0x41
    follower = open_log(tmp_path / "follower")
    before = {path.name: path.stat().st_size for path in (tmp_path / "follower/orders-0").iterdir()}
    with pytest.raises((CorruptRecords, UnexpectedAppendOffset)):
        follower.append_replicated(memoryview(data), now_ms=T0)
    assert follower.log_end_offset == 0
    assert {path.name: path.stat().st_size for path in (tmp_path / "follower/orders-0").iterdir()} == before


def test_offsets_that_go_back_are_refused(tmp_path: Path) -> None:
    follower = open_log(tmp_path)
    first, second = batch(b"a", b"b"), batch(b"c")
    second[0:8] = (1).to_bytes(8, "big")
    with pytest.raises(UnexpectedAppendOffset):
        follower.append_replicated(memoryview(first + second), now_ms=T0)
    assert follower.log_end_offset == 0


# -- high watermark --------------------------------------------------------------------------------------------------


def test_high_watermark_is_that_of_the_checkpoint(tmp_path: Path) -> None:
    manager = started(tmp_path, config=SMALL)
    log = manager.create("orders", 0, TOPIC_ID, SMALL, T0)
    for number in range(10):
        append(log, sized(100, timestamp=T0 + number))
    log.begin_replication(0)
    log.advance_high_watermark(6)
    manager.close(T0)
    manager = started(tmp_path, config=SMALL)
    log = opened(manager, "orders")
    log.begin_replication(stored_high_watermarks(manager.directories)["orders", 0])
    assert (log.high_watermark, log.log_end_offset) == (6, 10)
    log.end_replication()
    assert log.high_watermark == 10
    manager.close(T0)


def test_transaction_is_stable_when_its_marker_is_committed(tmp_path: Path) -> None:
    """Also after the start of a broker whose high watermark is before the marker."""
    log = open_log(tmp_path)
    append(log, batch(b"a"))
    log.begin_replication(1)
    append(log, idempotent(0, transactional=True))
    append(log, batch(b"b"))
    end(log, commit=True)
    append(log, batch(b"c"))
    assert log.last_stable_offset == 1
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 1
    crash(log)
    again = open_log(tmp_path, replicated=True)
    again.begin_replication(3)
    assert (again.high_watermark, again.last_stable_offset) == (3, 1)
    again.advance_high_watermark(5)
    assert again.last_stable_offset == 5
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 4
