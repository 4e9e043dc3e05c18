"""Fail the Nth call to the disk, for each N: acknowledged records stay, rejected ones are absent, the rest works."""

import errno
from pathlib import Path

import pytest

from storage.errors import LogOffline
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.disk_doubles.failing_fs import FailingFileSystem, ShortWrites
from tests.support.logs import T0, append, batch, crash, end, idempotent, open_log, read_all

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=100, segment_index_bytes=512)


def work(log: PartitionLog, acknowledged: list[tuple[int, bytes]]) -> None:
    """Plain, idempotent and transactional appends over several segments, flushes, a delete, a stop."""
    for number in range(8):
        value = b"plain-%d" % number
        acknowledged.append((append(log, batch(value)), value))
        value = b"%d" % number
        acknowledged.append((append(log, idempotent(number)), value))
        if number in (2, 5):
            append(log, idempotent(0 if number == 2 else 1, producer_id=9, transactional=True))
            end(log, commit=False, producer_id=9)
    log.close()


def check(root: Path, acknowledged: list[tuple[int, bytes]]) -> None:
    """Acknowledged records are there, at their offset, once, and the log accepts appends. Rules W1-W3, R4."""
    log = open_log(root, CONFIG)
    found = {record.offset: record.value for record in read_all(log)}
    for offset, value in acknowledged:
        assert found[offset] == value
    assert sorted(found) == list(range(log.log_end_offset))
    sequences = [record.sequence for record in read_all(log) if record.sequence >= 0]
    assert append(log, batch(b"next")) == log.log_end_offset - 1
    assert len(found) + 1 == log.log_end_offset
    assert sequences
    crash(log)


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_nth_call_fails_and_nothing_acknowledged_is_lost(code: int, broken: bool, tmp_path: Path) -> None:
    """Appends, rolls and the stop, with a disk that is full once, or gone for good."""
    fail_at = 0
    while True:
        fail_at += 1
        root = tmp_path / str(fail_at)
        root.mkdir()
        fs = FailingFileSystem(code=code, broken=broken)
        log = open_log(root, CONFIG, fs=fs)
        fs.fail_at = len(fs.calls) + fail_at
        acknowledged: list[tuple[int, bytes]] = []
        failed = False
        try:
            work(log, acknowledged)
        except LogOffline:
            failed = True
            assert log.directory.failure is not None
            ended = log.log_end_offset
            with pytest.raises(LogOffline):
                append(log, batch(b"after"))
            assert ended == log.log_end_offset
        except OSError:
            failed = True  # the stop itself: the caller takes the directory offline
        happened = fs.has_failed
        crash(log)
        if len(acknowledged) > 1:
            check(root, acknowledged)
        if not happened:
            assert not failed
            break
    assert fail_at > 50


def test_failed_write_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    """Rule W2: half a batch was written and then truncated. Offsets, producers and readers never saw it."""
    fs = FailingFileSystem()
    log = open_log(tmp_path, CONFIG, fs=fs)
    append(log, idempotent(0))
    size = Path(log.segments[0].log.path).stat().st_size
    fs.fail_at = len(fs.calls) + 1
    with pytest.raises(LogOffline):
        append(log, idempotent(1))
    assert fs.calls[-2:] == ["pwrite", "truncate"]
    assert (log.log_end_offset, log.high_watermark, log.producer_state.producers[7].last_sequence) == (1, 1, 0)
    assert size == Path(log.segments[0].log.path).stat().st_size


def test_short_writes_are_continued(tmp_path: Path) -> None:
    """Rule W1: the rest of a short write is written, or the append fails."""
    log = open_log(tmp_path, CONFIG, fs=ShortWrites())
    values = [b"value-%d" % number for number in range(20)]
    for value in values:
        append(log, batch(value))
    assert values == [record.value for record in read_all(log)]
    crash(log)
    assert values == [record.value for record in read_all(open_log(tmp_path, CONFIG))]


@pytest.mark.parametrize("call", ["sync", "sync_path"])
def test_a_failed_fsync_ends_the_directory_without_a_retry(call: str, tmp_path: Path) -> None:
    """Rule D3: the recovery point stays, appends are rejected, and the fsync is not retried."""
    fs = FailingFileSystem()
    manager = LogManager([str(tmp_path / "a"), str(tmp_path / "b")], fs=fs)
    failures = []
    for directory in manager.directories:
        directory.on_failure = failures.append
    manager.lock()
    one = manager.create("one", 0, bytes(16), CONFIG, T0)
    two = manager.create("two", 0, bytes(16), CONFIG, T0)
    assert one.directory is not two.directory
    append(one, batch())
    append(two, batch())
    task = manager.flush_task(one, T0)
    assert task is not None
    fs.calls.clear()
    calls = FailingFileSystem()
    try:
        task.directory.fs = calls
        calls.fail_at = 1 if call == "sync" else 2
        calls.code = errno.EIO
        task.run()
        task.apply()
    finally:
        task.directory.fs = fs
    assert calls.calls.count(call) == 1
    assert one.recovery_point == 0
    assert failures == [one.directory]
    with pytest.raises(LogOffline):
        append(one, batch())
    append(two, batch())
    assert not [task for task in manager.flush_tasks(T0) if getattr(task, "log", None) is one]
    assert manager.flush_task(two, T0) is not None


def test_directory_that_fails_at_the_start_leaves_the_others(tmp_path: Path) -> None:
    """Rule D3: its logs are unknown, so no partition that may be there is created elsewhere."""
    for name in "ab":
        manager = LogManager([str(tmp_path / name)])
        manager.lock()
        append(manager.create(name, 0, bytes(16), CONFIG, T0), batch())
        manager.close(T0)
    for fail_at in range(1, 12):
        fs = FailingFileSystem(code=errno.EIO)
        manager = LogManager([str(tmp_path / "a"), str(tmp_path / "b")], fs=fs)
        manager.lock()
        fs.fail_at = len(fs.calls) + fail_at
        manager.load(lambda topic: CONFIG, T0)
        first, second = manager.directories
        assert not (first.failure and second.failure)
        if first.failure is not None:
            assert ("b", 0) in manager.logs
            with pytest.raises(LogOffline):
                manager.create("a", 0, bytes(16), CONFIG, T0, is_new=False)
            assert manager.create("c", 0, bytes(16), CONFIG, T0).directory is second
            manager.delete("c", 0, "0" * 32, T0)
        manager.close(T0)
