"""A disk that fails, or a process that ends, at each single call of a cleaning round: nothing is lost."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

from protocol.records.builder import BatchBuilder
from storage.cleaner.round import clean
from storage.cleaner.swap import SwapInTask
from storage.errors import CorruptFile
from storage.fs import FileSystem
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from tests.support.cleaning import clean_log, consume, job_for
from tests.support.disk_doubles.failing_fs import FailingFileSystem
from tests.support.logs import T0, append, close, crash, end, open_log

CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=1200, index_interval_bytes=100, segment_index_bytes=512
)
SMALL = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=400, index_interval_bytes=100)


class Unsynced(FileSystem):
    """Forces nothing to the disk: these tests end processes, not machines, and have thousands of files."""

    def sync(self, handle: int) -> None:
        pass

    def sync_path(self, path: str) -> None:
        pass


class Failing(FailingFileSystem):
    """The same, but a sync fails like a real one."""

    def sync(self, handle: int) -> None:
        if self._count("sync"):
            raise self._error()

    def sync_path(self, path: str) -> None:
        if self._count("sync_path"):
            raise self._error()


Contents = list[tuple[int, bytes | None, bytes | None]]


def fill(root: Path) -> None:
    """Several segments that the cleaner merges, with an aborted transaction, tombstones and a producer."""
    log = open_log(root, SMALL)
    for number in range(14):
        builder = BatchBuilder(producer_id=5, producer_epoch=0, base_sequence=2 * number)
        builder.append(T0 + number, b"key-%d" % (number % 7), b"%d" % number if number % 5 else None)
        builder.append(T0 + number, b"once-%d" % number if number % 6 == 0 else b"again", b"x" * number)
        append(log, bytearray(builder.build()))
        if number in (4, 9):
            transaction = BatchBuilder(
                producer_id=9, producer_epoch=0, base_sequence=0 if number == 4 else 1, transactional=True
            )
            transaction.append(T0, b"key-1", b"in a transaction")
            append(log, bytearray(transaction.build()))
            end(log, commit=number != 4, producer_id=9)
    log.roll(log.log_end_offset, T0)
    builder = BatchBuilder()
    builder.append(T0, b"key-1", b"active")
    append(log, bytearray(builder.build()))
    close(log)


def contents(log: PartitionLog) -> Contents:
    return [(record.offset, record.key, record.value) for record in consume(log)]


def run_round(log: PartitionLog, fs: FileSystem) -> None:
    """Run a round like the broker. Raises the worker's error; a failed task takes the directory offline."""
    job = job_for(log, T0)
    assert job is not None
    result = clean(job, fs)
    for cleaned in result.segments:
        first = SwapInTask(log, cleaned, T0, lambda paths: None)
        first.run()
        first.apply()
        if first.following is not None:
            first.following.run()
            first.following.apply()
        if not log.directory.is_online:
            return


def check_after(root: Path, before: Contents, cleaned: Contents, producers: dict[int, int]) -> None:
    """The reopened log has its records, except those that a cleaner may remove.

    Another round completes the cleaning.
    """
    log = open_log(root, CONFIG, fs=Unsynced())
    found = contents(log)
    assert set(cleaned) <= set(found) <= set(before)
    assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
    assert log.log_end_offset == before[-1][0] + 1
    assert producers == {each.producer_id: each.last_sequence for each in log.producer_state.producers.values()}
    names = {path.name for path in Path(log.path).iterdir()}
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
    clean_log(log, T0, fs=Unsynced())
    assert contents(log) == cleaned
    crash(log)


def expectations(root: Path) -> tuple[Contents, Contents, dict[int, int]]:
    """Return the records before and after cleaning, and the producers' last sequences."""
    copy = root.parent / "expected"
    shutil.copytree(root, copy)
    log = open_log(copy, CONFIG, clean=True)
    before = contents(log)
    segments = len(log.segments)
    clean_log(log, T0)
    cleaned = contents(log)
    assert len(cleaned) < len(before) * 0.7
    assert len(log.segments) < segments - 1
    producers = {each.producer_id: each.last_sequence for each in log.producer_state.producers.values()}
    crash(log)
    return before, cleaned, producers


def each_call(tmp_path: Path, fail: Callable[[Failing, int], None]) -> int:
    """Fail a round at its first call, then at its second, and so on. Return the number of calls."""
    (tmp_path / "origin").mkdir()
    fill(tmp_path / "origin")
    before, cleaned, producers = expectations(tmp_path / "origin")
    number = 0
    while True:
        number += 1
        root = tmp_path / "now"
        shutil.copytree(tmp_path / "origin", root)
        fs = Failing()
        log = open_log(root, CONFIG, fs=fs, clean=True)
        fs.calls.clear()
        fail(fs, number)
        try:
            run_round(log, fs)
        except (OSError, CorruptFile):
            pass
        else:
            assert log.directory.failure is not None or not fs.has_failed or fs.calls[number - 1] == "remove"
        happened = fs.has_failed
        crash(log)
        check_after(root, before, cleaned, producers)
        shutil.rmtree(root)
        if not happened:
            return number


def test_call_that_fails(tmp_path: Path) -> None:
    """Only that call fails. Later calls succeed, as on a disk that was full for a moment."""

    def fail(fs: Failing, number: int) -> None:
        fs.fail_at, fs.code = number, errno.ENOSPC if number % 2 else errno.EIO

    assert each_call(tmp_path, fail) > 100


def test_process_that_ends(tmp_path: Path) -> None:
    """The process makes no further call. The next start finds the files as they are then."""

    def fail(fs: Failing, number: int) -> None:
        fs.fail_at, fs.broken = number, True

    assert each_call(tmp_path, fail) > 100
