"""Look-ups by time run in steps: changes of the log between two of them."""

from __future__ import annotations

import errno
import struct
from pathlib import Path
from typing import Any

import pytest

from protocol.records.batch import CREATE_TIME, iter_batches, patch_timestamp
from protocol.records.compression import Codec
from storage.errors import LogOffline
from storage.fs import LOCAL
from storage.log.batch_search import BatchSearch, search_file
from storage.log.partition_log import PartitionLog
from storage.log.timestamps import Allowance, find_last_written_by, find_max_timestamp, find_timestamp
from storage.log_config import LogConfig
from tests.support.bombs import large_record
from tests.support.logs import T0, append, batch, open_log
from tests.support.look_ups import LARGE, Driver, large, large_segments, look_up


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return large_segments(tmp_path)


def test_no_file_is_held_open_between_steps(log: PartitionLog) -> None:
    """Rule H2: as many look-ups as clients may be waiting."""

    def give_up_files(_: BatchSearch) -> None:
        for segment in log.segments:
            segment.close()
        assert len(log.directory.files) == 0

    handles: list[int] = []
    log.directory.files.fs.close = handles.append  # type: ignore[method-assign, assignment]
    try:
        assert look_up(log, T0, Driver(1, give_up_files)) is not None
    finally:
        del log.directory.files.fs.close
    assert handles


def test_segment_is_removed_between_steps(log: PartitionLog) -> None:
    """Retention removes it; the next segment has the later records."""

    def remove(search: BatchSearch) -> None:
        first = log.segments[0]
        if first.base_offset == 0:
            log.raise_log_start(LARGE)
            log.drop_segments([first])
            first.remove_files()

    driver = Driver(800, remove)
    assert look_up(log, T0 + 5, driver) == (T0 + LARGE, LARGE, 0)
    assert driver.searches == 2


def test_segment_with_largest_timestamp_is_removed(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=len(large())))
    for number in (9, 1, 2):
        append(log, large(number))

    def remove(search: BatchSearch) -> None:
        first = log.segments[0]
        if first.base_offset == 0:
            log.raise_log_start(LARGE)
            log.drop_segments([first])
            first.remove_files()

    assert look_up(log, None, Driver(800, remove)) == (T0 + 3 * LARGE - 1, 3 * LARGE - 1, 0)


def test_earlier_batch_gets_the_largest_timestamp(tmp_path: Path) -> None:
    """The cleaner removes the batch that claimed it, so batches that were skipped for it are read again."""
    log = open_log(tmp_path, LogConfig(segment_bytes=len(large())))
    lying = large(1)
    patch_timestamp(lying, 0, len(lying), CREATE_TIME, T0 + 9 * LARGE)
    for each in (large(), lying, large()):
        append(log, each)

    def clean(search: BatchSearch) -> Any:
        searched = search_file(search)
        if search.timestamp == T0 + 9 * LARGE:
            log.drop_segments([log.segments[1]])
        return searched

    assert look_up(log, None, Driver(800)) == (T0 + 9 * LARGE, 2 * LARGE - 1, -1)
    assert look_up(log, None, Driver(800, clean)) == (T0 + LARGE - 1, LARGE - 1, 0)


def test_segment_is_replaced_between_steps(log: PartitionLog) -> None:
    """After a cleaning the file of that name has other bytes."""
    path = Path(log.segments[0].log.path)
    before = path.read_bytes()

    def replace(search: BatchSearch) -> None:
        path.write_bytes(before[:20] + b"\1" + before[21:])  # the checksum, which look-ups do not verify

    driver = Driver(800, replace)
    assert look_up(log, T0 + 5, driver) == (T0 + 5, 5, 0)
    assert driver.searches == 2


def test_records_are_deleted_between_steps(log: PartitionLog) -> None:
    """The result is the first remaining record, in the same batch or a later one."""
    moved = iter([7, LARGE + 3])

    def delete_after(search: BatchSearch) -> Any:
        searched = search_file(search)
        log.delete_records(next(moved, log.log_start_offset))
        return searched

    driver = Driver(800, delete_after)
    assert look_up(log, T0, driver) == (T0 + LARGE + 3, LARGE + 3, 0)


def test_batches_are_appended_between_steps(log: PartitionLog) -> None:
    """A later record that is appended during a search for the largest timestamp changes nothing."""

    def appending(search: BatchSearch) -> Any:
        append(log, batch(b"later", timestamp=T0 + 99 * LARGE), now_ms=T0 + 99 * LARGE)

    assert look_up(log, None, Driver(800, appending)) == (T0 + 4 * LARGE - 1, 4 * LARGE - 1, 0)
    assert look_up(log, T0 + 99 * LARGE, Driver(800)) == (T0 + 99 * LARGE, 4 * LARGE, 0)


@pytest.mark.parametrize("timestamp", [T0, None])
def test_log_is_closed_between_steps(log: PartitionLog, timestamp: int | None) -> None:
    with pytest.raises(LogOffline):
        look_up(log, timestamp, Driver(800, lambda search: log.close_files()))
    assert log.directory.is_online


def test_log_moves_between_steps(log: PartitionLog, tmp_path: Path) -> None:
    """After a move (KIP-113) the look-up continues in the new log."""
    other = open_log(tmp_path / "other")
    for number in range(4):
        append(other, large(number))
    logs = [log, other]

    def move(search: BatchSearch) -> None:
        if len(logs) > 1:
            crash = logs.pop(0)
            crash.close_files()
            Path(search.path).unlink()

    driver = Driver(800, move)
    steps = find_timestamp(lambda: logs[0], T0 + LARGE + 1, driver.allowance)
    assert driver.run(steps) == (T0 + LARGE + 1, LARGE + 1, 0)
    assert driver.searches == 2


def test_missing_file_is_tried_a_few_times(log: PartitionLog) -> None:
    """Then the result is the start of the batch; a read from there reports the error."""
    Path(log.segments[0].log.path).rename(f"{log.segments[0].log.path}.elsewhere")
    driver = Driver(800)
    assert look_up(log, T0 + 5, driver) == (T0 + LARGE - 1, 0, 0)
    assert driver.searches == 16


def test_failing_disk_takes_its_directory_offline(log: PartitionLog) -> None:
    def fail(search: BatchSearch) -> None:
        raise OSError(errno.EIO, "broken")

    with pytest.raises(LogOffline):
        look_up(log, T0, Driver(800, fail))
    assert not log.directory.is_online


def test_batch_that_kills_a_worker_is_not_tried_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, large())
    for timestamp in (T0 + 5, None):
        steps = (
            find_timestamp(lambda: log, timestamp, Allowance())
            if timestamp
            else find_max_timestamp(lambda: log, Allowance())
        )
        assert isinstance(steps.send(None), BatchSearch)
        with pytest.raises(StopIteration) as end:
            steps.send(None)
        assert end.value.value == (T0 + LARGE - 1, 0, 0)


def test_look_up_ends_despite_decreasing_offsets(tmp_path: Path) -> None:
    """If a program has written into the file, the skipped batches are not reported."""
    log = open_log(tmp_path)
    lying = large_record(100, Codec.GZIP)
    [(_, header)] = iter_batches(lying)
    for _ in range(17):
        append(log, lying, now_ms=header.max_timestamp)
    last = bytearray(lying)
    struct.pack_into(">q", last, 0, 3)
    struct.pack_into(">i", last, 23, 100)
    with open(log.segments[0].log.path, "r+b") as file:
        file.seek(-len(last), 2)
        file.write(last)
    assert look_up(log, header.max_timestamp, Driver(800)) == (header.max_timestamp, 16, -1)


def test_segment_is_removed_before_its_time_is_read(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=100))
    for number in range(9):
        append(log, batch())
        LOCAL.set_modified_ms(log.segments[number].log.path, T0 + number)
    steps = find_last_written_by(lambda: log, T0 + 7, allowance := Allowance(1))
    assert steps.send(None) is None
    removed = log.segments[7]
    log.drop_segments([removed])
    removed.remove_files()
    allowance.left = 1
    with pytest.raises(StopIteration) as end:
        steps.send(None)
    assert end.value.value == 6
