"""Retention by time, size and log start offset, in two steps; an expired active segment is replaced first."""

from pathlib import Path

import pytest

from storage.log.partition_log import PartitionLog
from storage.log.retention import expired_segments
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.logs import T0, append, batch, idempotent, read_all, sized

DAY = 86_400_000


def manager_with(root: Path, config: LogConfig) -> tuple[LogManager, PartitionLog]:
    manager = LogManager([str(root)])
    manager.lock()
    return manager, manager.create("orders", 0, bytes(16), config, T0)


def run_retention(manager: LogManager, now_ms: int) -> None:
    for task in manager.retention_tasks(now_ms):
        task.run()
        task.apply()


def config(**values: object) -> LogConfig:
    """Segments of four batches of 100 bytes; only the given limits apply."""
    return LogConfig(**{"segment_bytes": 400, "retention_ms": -1, **values})  # type: ignore[arg-type]


def filled(log: PartitionLog, count: int = 20) -> None:
    for number in range(count):
        append(log, sized(100, timestamp=T0 + 1000 * number), now_ms=T0 + 1000 * number)


@pytest.mark.parametrize(
    ("retention_bytes", "left"),
    [(1200, 3), (1201, 4), (1199, 3), (1600, 4), (1999, 5), (2000, 5), (100, 1), (0, 1)],
)
def test_size_keeps_the_log_at_or_above_the_limit(retention_bytes: int, left: int, tmp_path: Path) -> None:
    """S14.11, S14.13: whole segments are removed while the rest is not smaller than the limit."""
    manager, log = manager_with(tmp_path, config(retention_bytes=retention_bytes))
    filled(log)
    run_retention(manager, T0)
    assert len(log.segments) == left
    assert log.log_end_offset == 20


def test_time_is_the_largest_timestamp_of_the_records(tmp_path: Path) -> None:
    """S14.5, S14.7: not the file's time; a record from the future keeps its segment and all later ones."""
    manager, log = manager_with(tmp_path, config(retention_ms=10_000))
    filled(log)
    run_retention(manager, T0 + 13_000)
    assert log.log_start_offset == 0
    run_retention(manager, T0 + 13_001)
    assert (log.log_start_offset, log.segments[0].base_offset) == (4, 4)
    append(log, sized(100, timestamp=T0 + 3_000_000), now_ms=T0)
    run_retention(manager, T0 + 100_000)
    assert log.log_start_offset == 20


def test_all_segments_expire_and_offsets_continue(tmp_path: Path) -> None:
    """S14.9: an empty segment that is named after the end is created first."""
    manager, log = manager_with(tmp_path, config(retention_ms=10_000))
    filled(log)
    run_retention(manager, T0 + DAY)
    assert (log.segments.base_offsets, log.log_start_offset, log.log_end_offset) == ([20], 20, 20)
    assert log.size_bytes == 0
    assert append(log, batch()) == 20
    run_retention(manager, T0 + 2 * DAY)
    run_retention(manager, T0 + 3 * DAY)
    assert log.segments.base_offsets == [21]


@pytest.mark.parametrize(("start", "base"), [(0, 0), (3, 0), (4, 4), (7, 4), (15, 12), (16, 16), (20, 16)])
def test_segments_below_the_log_start_are_removed(start: int, base: int, tmp_path: Path) -> None:
    """S14.16, S14.17: if the base offset of the next segment is not above the log start; with every policy."""
    manager, log = manager_with(tmp_path, config(cleanup_policy=frozenset({"compact"})))
    for number in range(20):
        append(log, keyed(number))
    log.delete_records(start)
    run_retention(manager, T0 + 365 * DAY)
    assert log.segments[0].base_offset == base
    assert log.log_start_offset == start


def keyed(number: int) -> bytearray:
    records = batch(bytes(29), key=b"key", timestamp=T0 + number)
    assert len(records) == 100
    return records


def test_policies_and_limits_combine(tmp_path: Path) -> None:
    """S14.2, S14.14, S14.15: compact alone deletes nothing; with delete, whichever limit is reached first."""
    _, log = manager_with(tmp_path, config())
    filled(log)
    for policy, retention_ms, retention_bytes, gone in [
        ("compact", 1, 0, 0),
        ("delete", -1, -1, 0),
        ("delete", 10_000, -1, 1),
        ("delete", -1, 1200, 2),
        ("delete", 10_000, 1200, 2),
        ("delete", 3_000, 1600, 3),
        ("compact,delete", -1, 1200, 2),
    ]:
        log.config = config(
            cleanup_policy=frozenset(policy.split(",")), retention_ms=retention_ms, retention_bytes=retention_bytes
        )
        assert len(expired_segments(log, T0 + 14_500)) == gone, (policy, retention_ms, retention_bytes)


def test_nothing_beyond_the_high_watermark_is_removed(tmp_path: Path) -> None:
    """Uncommitted records are not deleted."""
    _, log = manager_with(tmp_path, config(retention_ms=1))
    log.replicated = True
    filled(log)
    log.advance_high_watermark(9)
    assert [segment.base_offset for segment in expired_segments(log, T0 + DAY)] == [0, 4]


def test_files_are_renamed_first_and_removed_after_the_delay(tmp_path: Path) -> None:
    """S14.8, S14.20, S14.10: readers get an error at once; the files are kept for file.delete.delay.ms."""
    manager, log = manager_with(tmp_path, config(retention_bytes=1200, file_delete_delay_ms=60_000))
    for sequence in range(4):
        append(log, idempotent(sequence))
    filled(log)
    path = Path(log.path)
    part = log.read(0, 1000, 4)
    run_retention(manager, T0)
    start = log.log_start_offset
    names = sorted(file.name for file in path.iterdir() if file.name.endswith(".deleted"))
    assert f"{0:020d}.log.deleted" in names
    assert f"{0:020d}.index.deleted" in names
    assert f"{0:020d}.timeindex.deleted" in names
    assert any(name.endswith(".snapshot.deleted") for name in names)
    assert read_all(log)[0].offset == start > 0
    assert not isinstance(part, bytes)
    assert len(part.read()) == len(part)
    for now_ms, left in [(T0 + 59_999, True), (T0 + 60_000, False)]:
        for task in manager.removal_tasks(now_ms):
            task.run()
            task.apply()
        assert any(file.name.endswith(".deleted") for file in path.iterdir()) is left
    assert sorted(path.glob("*.snapshot")) == [Path(log.snapshot_path(offset)) for offset in log.snapshots]


@pytest.mark.parametrize(
    ("unread_from", "limit", "start"),
    [
        *((0, 2000, 0), (0, 1600, 4), (0, 1599, 8), (0, 400, 16), (0, 399, 20), (0, 0, 20)),
        *((3, 2000, 0), (4, 2000, 4), (7, 2000, 4), (8, 2000, 8), (19, 2000, 16), (20, 2000, 20), (99, 2000, 20)),
        *((9, 800, 12), (9, 1200, 8)),
    ],
)
def test_unread_records_are_held_up_to_a_size(unread_from: int, limit: int, start: int, tmp_path: Path) -> None:
    """Whole segments from the reader's offset on are held; beyond the limit the oldest are removed."""
    manager, log = manager_with(tmp_path, config(retention_ms=10_000, retention_hold_max_bytes=limit))
    filled(log)
    manager.unread_from = lambda log: unread_from
    run_retention(manager, T0 + DAY)

    assert log.log_start_offset == start
    assert log.log_end_offset == 20


def test_hold_covers_size_limits_but_not_deleted_records(tmp_path: Path) -> None:
    """Two of five segments have expired. DeleteRecords removes unread records even if they are held."""
    manager, log = manager_with(tmp_path, config(retention_bytes=1200, retention_hold_max_bytes=10_000))
    filled(log)
    manager.unread_from = lambda log: 5
    run_retention(manager, T0)
    assert log.segments[0].base_offset == 4

    log.delete_records(12)
    run_retention(manager, T0)
    assert log.segments[0].base_offset == 12


def test_nothing_is_held_without_a_reader(tmp_path: Path) -> None:
    """The configuration of the topic alone holds nothing."""
    manager, log = manager_with(tmp_path, config(retention_ms=10_000, retention_hold_max_bytes=10_000))
    filled(log)
    run_retention(manager, T0 + DAY)

    assert log.log_start_offset == 20
