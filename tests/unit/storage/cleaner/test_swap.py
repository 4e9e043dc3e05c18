"""Cleaned segments replace others: names, segment list, readers, snapshots."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from storage.cleaner.job import CleanJob, CleanResult
from storage.cleaner.round import clean
from storage.cleaner.swap import SwapInTask, still_fits
from storage.fetch_slice import FetchSlice
from storage.fs import FileSystem
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from tests.support.cleaning import consume, job_for, swap_in
from tests.support.logs import T0, append, batch, crash, end, idempotent, open_log

SMALL = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=200)
CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=2000)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    """Return a log with six closed segments, one with an aborted transaction, and an active one."""
    made = open_log(tmp_path, SMALL)
    for number in range(10):
        append(made, batch(b"%d" % number, key=b"k%d" % (number % 3)))
    append(made, idempotent(0, producer_id=9, transactional=True, key=b"x"))
    end(made, commit=False, producer_id=9)
    made.roll(made.log_end_offset, T0)
    append(made, batch(b"active", key=b"k0"))
    made.config = CONFIG
    return made


def cleaned(log: PartitionLog) -> tuple[CleanJob, CleanResult]:
    job = job_for(log, T0)
    assert job is not None
    return job, clean(job)


def names(log: PartitionLog) -> list[str]:
    return sorted(path.name for path in Path(log.path).iterdir())


def test_one_segment_replaces_several(log: PartitionLog) -> None:
    """The old files and snapshots get the suffix .deleted and the new files their names; no other file is left."""
    old = [segment.base_offset for segment in log.segments[:-1]]
    job, result = cleaned(log)
    assert [segment.replaced for segment in result.segments] == [tuple(old)]
    assert still_fits(log, job)
    before = log.size_bytes
    removed = swap_in(log, result, T0)
    assert log.segments.base_offsets == [0, job.end_offset]
    assert log.size_bytes == before - result.read_bytes + result.kept_bytes
    assert not [name for name in names(log) if name.endswith((".cleaned", ".swap"))]
    on_disk = {name for name in names(log) if name.endswith(".deleted")}
    assert on_disk <= {Path(path).name for path in removed}
    assert {f"{offset:020d}.log.deleted" for offset in old} <= on_disk
    assert log.snapshots == [job.end_offset]
    assert [record.value for record in consume(log) if len(record.key or b"") == 2] == [b"7", b"8", b"9", b"active"]
    crash(log)
    again = open_log(Path(log.path).parent, CONFIG)
    assert again.segments.base_offsets == [0, job.end_offset]


def test_readers_between_the_steps_use_the_new_segment(log: PartitionLog) -> None:
    """Its files are held open while they are renamed, and opened by name afterwards."""
    part = log.read(0, 60, log.log_end_offset)
    assert isinstance(part, FetchSlice)
    old_bytes = part.read()
    _, result = cleaned(log)
    task = SwapInTask(log, result.segments[0], T0, lambda paths: None)
    task.run()
    assert log.segments[0].size_bytes > 60
    task.apply()
    new = log.segments[0]
    assert new.log.path.endswith(".swap")
    between = consume(log)
    assert task.following is not None
    task.following.run()
    assert consume(log) == between
    task.following.apply()
    assert new.log.open_file is None
    assert consume(log) == between
    assert new.paths[0] == f"{log.path}/{0:020d}.log"
    assert part.read() == old_bytes
    assert new.txn_index.path == f"{log.path}/{0:020d}.txnindex"


def test_log_closed_during_the_swap_is_left_alone(log: PartitionLog) -> None:
    """The topic is deleted, so missing files must not take the directory offline."""
    job, result = cleaned(log)
    task = SwapInTask(log, result.segments[0], T0, lambda paths: None)
    log.close_files()
    Path(log.path).rename(log.path + ".away")
    task.run()
    task.apply()
    assert task.following is None
    assert log.directory.failure is None
    assert not still_fits(log, job)


class WithoutDescriptor(FileSystem):
    """A file system without a free descriptor when names are forced to the disk for the `fail_at`th time."""

    fail_at = 0

    def sync_path(self, path: str) -> None:
        self.fail_at -= 1
        if self.fail_at == 0:
            raise OSError(errno.EMFILE, "Too many open files")
        super().sync_path(path)


@pytest.mark.parametrize("fail_at", [1, 2, 3])
def test_half_renamed_segment_takes_the_directory_offline(fail_at: int, log: PartitionLog) -> None:
    """The disk is not at fault, but another round would remove its own results. A start repairs all of it."""
    fs = log.directory.fs = WithoutDescriptor()
    _, result = cleaned(log)
    fs.fail_at = fail_at

    swap_in(log, result, T0)

    assert log.directory.failure is not None
    crash(log)
    again = open_log(Path(log.path).parent, CONFIG)
    kept = {record.key: record.value for record in consume(again) if len(record.key or b"") == 2}
    assert kept == {b"k0": b"active", b"k1": b"7", b"k2": b"8"}


def test_cleaned_segments_must_still_be_in_the_log(log: PartitionLog) -> None:
    """With other segments or another policy the result is discarded. Appends and new segments do not matter."""
    job, _ = cleaned(log)
    append(log, batch(b"more", key=b"k1"))
    log.roll(log.log_end_offset, T0)
    assert still_fits(log, job)
    log.config = LogConfig()
    assert not still_fits(log, job)
    log.config = CONFIG
    assert still_fits(log, job)
    log.drop_segments([log.segments[0]])
    assert not still_fits(log, job)
