"""Truncation of a replica's log, and a log without gaps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.checkpoints import RECOVERY_POINTS, read_offsets
from storage.errors import LogOffline
from storage.fs import LOCAL, FileSystem
from storage.log.partition_log import PartitionLog
from storage.log.truncation import empty_log, truncate_log, truncate_logs
from storage.log_config import LONG_MAX, LogConfig
from storage.log_manager import LogManager
from tests.support.logs import (
    T0,
    TOPIC_ID,
    append,
    batch,
    crash,
    do,
    end,
    idempotent,
    open_log,
    read_all,
    sized,
    started,
)

SMALL = LogConfig(segment_bytes=300, index_interval_bytes=100, segment_index_bytes=240)


def values(log: PartitionLog) -> list[bytes | None]:
    return [record.value for record in read_all(log)]


def filled(root: Path, count: int = 10, config: LogConfig = SMALL, **left: object) -> PartitionLog:
    """Return a log with batches of 100 bytes, three in a segment."""
    log = open_log(root, config, **left)  # type: ignore[arg-type]
    for number in range(count):
        append(log, sized(100, timestamp=T0 + number), leader_epoch=number // 4)
    return log


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 5, 6, 9])
def test_end_of_a_log_is_removed(tmp_path: Path, offset: int) -> None:
    log = filled(tmp_path)
    expected = [path for each in log.segments[log.segments.floor(offset) + 1 :] for path in each.paths[:3]]
    renamed = truncate_log(log, offset, T0)
    assert sorted(renamed) == sorted(f"{path}.deleted" for path in expected)
    assert log.log_end_offset == log.high_watermark == log.last_stable_offset == offset
    assert log.size_bytes == 100 * offset == sum(segment.size_bytes for segment in log.segments)
    assert [record.offset for record in read_all(log)] == list(range(offset))
    assert log.leader_epochs.entries == tuple((epoch, 4 * epoch) for epoch in range(3) if 4 * epoch < offset)
    assert append(log, sized(100), leader_epoch=7) == offset
    assert log.leader_epochs.entries[-1] == (7, offset)
    found = log.offset_for_timestamp(T0)
    assert found is not None
    assert found.offset == 0


def test_batch_that_contains_the_offset_goes_as_a_whole(tmp_path: Path) -> None:
    """The log claims no offset whose record it lacks."""
    log = open_log(tmp_path)
    append(log, batch(b"a", b"b"))
    append(log, batch(b"c", b"d", b"e"))
    truncate_log(log, 4, T0)
    assert log.log_end_offset == 2
    assert values(log) == [b"a", b"b"]


def test_offset_in_a_gap_is_the_new_end(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, batch(b"a"))
    later = batch(b"later")
    later[0:8] = (10).to_bytes(8, "big")
    log.append_replicated(memoryview(later), now_ms=T0)
    truncate_log(log, 7, T0)
    assert log.log_end_offset == 7
    assert values(log) == [b"a"]


def test_offset_beyond_the_end_removes_epochs_alone(tmp_path: Path) -> None:
    """An epoch without records may contradict the leader's (KAFKA-10706)."""
    log = open_log(tmp_path)
    append(log, batch(b"a"), leader_epoch=1)
    log.leader_epochs.assign(5, 1)
    assert truncate_log(log, 1, T0) == []
    assert log.leader_epochs.entries == ((1, 0),)
    assert log.truncations == 0
    assert values(log) == [b"a"]


def test_offset_before_the_first_segment_empties_the_log(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.raise_log_start(6)
    log.drop_segments(log.segments[:2])
    truncate_log(log, 4, T0)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (4, 4, 0)
    assert append(log, batch(b"new")) == 4


def test_log_starts_over_behind_its_end(tmp_path: Path) -> None:
    """The leader's log begins behind the end of the replica's."""
    log = filled(tmp_path)
    append(log, idempotent(0), leader_epoch=3)
    empty_log(log, 50, T0)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (50, 50, 50)
    assert log.leader_epochs.entries == ()
    assert log.producer_state.producers == {}
    append(log, batch(b"new"), leader_epoch=9)
    crash(log)
    again = open_log(tmp_path, SMALL, replicated=True, log_start_offset=50)
    assert values(again) == [b"new"]
    assert again.log_end_offset == 51


def test_producers_are_those_of_the_kept_records(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, idempotent(0))
    append(log, idempotent(1))
    append(log, idempotent(0, producer_id=8))
    truncate_log(log, 1, T0)
    assert {key: entry.last_sequence for key, entry in log.producer_state.producers.items()} == {7: 0}
    assert append(log, idempotent(1)) == 1


def test_transaction_whose_marker_is_removed_is_open_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, idempotent(0, transactional=True))
    end(log, commit=False)
    append(log, batch(b"a"))
    assert log.aborted_transactions(0, 3)
    truncate_log(log, 1, T0)
    assert log.last_stable_offset == 0
    assert log.aborted_transactions(0, 1) == []
    end(log, commit=True)
    assert log.last_stable_offset == 2


def test_positions_of_readers_are_forgotten(tmp_path: Path) -> None:
    """Batches of another size take the place of those whose positions a reader knew."""
    log = open_log(tmp_path)
    for number in range(600):  # more than the positions of the last batches
        append(log, sized(100, timestamp=T0 + number))
    assert len(read_all(log)) == 600
    truncate_log(log, 3, T0)
    for number in range(600):
        append(log, sized(130, timestamp=T0 + number))
    assert [each.offset for each in read_all(log)] == list(range(603))
    for offset in range(603):
        assert [each.offset for each in read_all(log, offset)][:1] == [offset]


# -- recovery point and crashes --------------------------------------------------------------------------------------


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[LogManager]:
    made = started(tmp_path, config=SMALL)
    yield made
    made.close(T0)


def managed(manager: LogManager) -> PartitionLog:
    """Return a log of ten batches that is on the disk."""
    log = manager.create("orders", 0, TOPIC_ID, SMALL, T0)
    for number in range(10):
        append(log, sized(100, timestamp=T0 + number))
    task = manager.flush_task(log, T0)
    assert task is not None
    do([task])
    do(manager.checkpoint_tasks())
    return log


def points(path: Path) -> dict[tuple[str, int], int]:
    return read_offsets(LOCAL, f"{path}/{RECOVERY_POINTS}", [])


def test_recovery_point_is_lowered_on_the_disk(manager: LogManager, tmp_path: Path) -> None:
    log = managed(manager)
    assert points(tmp_path) == {("orders", 0): 10}
    former = manager.checkpoint_tasks()
    truncate_logs({log: 4}, manager.checkpoints, manager.removals, T0)
    assert log.recovery_point == 4
    assert points(tmp_path) == {("orders", 0): 4}
    do(former)  # the thread had this task already
    assert points(tmp_path) == {("orders", 0): 4}
    do(manager.removal_tasks(T0 + SMALL.file_delete_delay_ms))
    assert not list(tmp_path.glob("orders-0/*.deleted"))


def test_flush_that_began_before_does_not_count(manager: LogManager) -> None:
    """It may have forced removed records to the disk."""
    log = managed(manager)
    append(log, sized(100))
    task = manager.flush_task(log, T0)
    assert task is not None
    task.run()
    truncate_logs({log: 4}, manager.checkpoints, manager.removals, T0)
    for _ in range(9):
        append(log, sized(100))
    task.apply()
    assert log.recovery_point == 4


def test_failed_directory_does_not_stop_the_others(tmp_path: Path) -> None:
    manager = started(tmp_path / "a", tmp_path / "b", config=SMALL)
    logs = [manager.create("orders", number, TOPIC_ID, SMALL, T0) for number in range(2)]
    for log in logs:
        append(log, batch(b"a"))
        append(log, batch(b"b"))
    logs[0].directory.fail("broken")
    truncate_logs(dict.fromkeys(logs, 1), manager.checkpoints, manager.removals, T0)
    assert logs[1].log_end_offset == 1
    manager.close(T0)


class Killed(Exception):
    """The process ends here."""


class KilledAt(FileSystem):
    """A file system whose process is killed before change `number` of a truncation."""

    def __init__(self) -> None:
        self.left = LONG_MAX

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def rename(self, source: str, target: str) -> None:
        self._count()
        super().rename(source, target)

    def truncate(self, handle: int, size: int) -> None:
        self._count()
        super().truncate(handle, size)

    def write_file(self, path: str, data: bytes, *, sync: bool = False) -> None:
        self._count()
        super().write_file(path, data, sync=sync)

    def remove(self, path: str) -> None:
        self._count()
        super().remove(path)


@pytest.mark.parametrize("offset", [2, 4, 8])
def test_kill_at_any_step_leaves_a_log_to_recover(tmp_path: Path, offset: int) -> None:
    """The log is a prefix of the former one, and at least what the truncation keeps."""
    steps = 0
    while True:
        root, fs = tmp_path / str(steps), KilledAt()
        log = open_log(root, SMALL, fs=fs)
        for number in range(5):
            append(log, idempotent(number, transactional=True, timestamp=T0 + number))
            end(log, commit=number % 2 == 0)
        former = values(log)
        fs.left = steps
        try:
            truncate_log(log, offset, T0)
            done = True
        except Killed:
            done = False
        fs.left = LONG_MAX
        crash(log)
        again = open_log(root, SMALL, replicated=True)
        assert values(again) == former[: again.log_end_offset]
        assert again.log_end_offset >= offset
        truncate_log(again, offset, T0)
        assert again.log_end_offset == offset
        assert len(again.aborted_transactions(0, 10)) == offset // 4
        if done:
            assert steps
            return
        steps += 1


def test_failure_takes_the_directory_offline(tmp_path: Path) -> None:
    class Broken(FileSystem):
        broken = False

        def truncate(self, handle: int, size: int) -> None:
            if self.broken:
                raise OSError(5, "Input/output error")
            super().truncate(handle, size)

    fs = Broken()
    log = filled(tmp_path, fs=fs)
    fs.broken = True
    with pytest.raises(LogOffline):
        truncate_log(log, 4, T0)
    assert log.directory.failure is not None


# -- a log without gaps ----------------------------------------------------------------------------------------------


def test_replica_does_not_continue_after_a_gap(tmp_path: Path) -> None:
    """Damage below the recovery point: one replica alone continues behind it, another one ends where it is cut."""
    for replicated, expected in ((False, 10), (True, 7)):
        root = tmp_path / str(replicated)
        log = filled(root)
        crash(log)
        path = root / "orders-0" / f"{6:020}.log"
        path.write_bytes(path.read_bytes()[:150])
        again = open_log(root, SMALL, recovery_point=8, replicated=replicated)
        assert again.log_end_offset == (expected if replicated else 8)


def test_segment_behind_a_gap_is_kept_aside(tmp_path: Path) -> None:
    """After a power failure the end of a segment may be missing while the next one exists."""
    log = filled(tmp_path)
    crash(log)
    path = tmp_path / "orders-0" / f"{3:020}.log"
    path.write_bytes(path.read_bytes()[:200])
    cuts: list[object] = []
    again = open_log(tmp_path, SMALL, replicated=True)
    assert again.log_end_offset == 5
    assert len(list(tmp_path.glob("orders-0/*.corrupt"))) == 2, cuts


def test_replica_without_segments_begins_at_zero(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    assert open_log(tmp_path, clean=True, recovery_point=9, replicated=True).log_end_offset == 0
