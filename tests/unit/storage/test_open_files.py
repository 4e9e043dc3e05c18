"""Open files: closed with their last holder, limited in number."""

import errno
import gc
import os
from pathlib import Path

import pytest

from storage.errors import LogOffline
from storage.fs import LOCAL, FileSystem
from storage.log.leader_epoch import LeaderEpochs
from storage.log_config import LogConfig
from storage.open_files import LogFile, OpenFiles
from tests.support.logs import append, batch, close, crash, end, idempotent, open_log, read_all, sized


class Counting(FileSystem):
    """Records the closed handles."""

    def __init__(self) -> None:
        self.closed: list[int] = []

    def close(self, handle: int) -> None:
        self.closed.append(handle)
        super().close(handle)


def test_descriptor_is_closed_with_its_last_holder(tmp_path: Path) -> None:
    """Rule H1."""
    fs = Counting()
    file = LogFile(OpenFiles(fs), str(tmp_path / "a"), writable=True)
    held = file.open(create=True)
    handle = held.fileno()
    file.close()
    gc.collect()
    assert fs.closed == []
    os.fstat(handle)
    del held
    assert fs.closed == [handle]
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(handle)


def test_open_files_are_limited_and_used_ones_stay(tmp_path: Path) -> None:
    """A file that was used since the last check stays open; a closed file is opened again when needed."""
    files = OpenFiles(LOCAL, capacity=4)
    made = [LogFile(files, str(tmp_path / str(number)), writable=True) for number in range(20)]
    busy = made[0]
    for file in made:
        busy.open(create=True)
        file.open(create=True)
        assert len(files) <= 4
    assert busy.open_file is not None
    assert sum(file.open_file is not None for file in made) == 4
    for file in made:
        assert file.open().handle >= 0
        assert len(files) <= 4


def test_closed_file_makes_room(tmp_path: Path) -> None:
    """It may be closed twice."""
    files = OpenFiles(LOCAL, capacity=4)
    file = LogFile(files, str(tmp_path / "a"), writable=True)
    file.open(create=True)
    file.close()
    file.close()
    assert len(files) == 0


def test_missing_file_is_not_held(tmp_path: Path) -> None:
    """An error leaves no entry."""
    files = OpenFiles(LOCAL)
    with pytest.raises(FileNotFoundError):
        LogFile(files, str(tmp_path / "a"), writable=False).open()
    assert len(files) == 0


class Limited(Counting):
    """Has a limited number of descriptors in total."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit
        self.opened = 0

    def open_write(self, path: str, *, create: bool = False, empty: bool = False) -> int:
        if self.opened - len(self.closed) >= self.limit:
            raise OSError(errno.EMFILE, "Too many open files")
        self.opened += 1
        return super().open_write(path, create=create, empty=empty)


def test_process_without_descriptors_closes_cached_files(tmp_path: Path) -> None:
    """If that does not help, only the current operation fails, not the directory."""
    fs = Limited(6)
    log = open_log(tmp_path, LogConfig(segment_bytes=100), fs=fs)
    for number in range(10):
        append(log, batch(b"%d" % number))
    assert len(read_all(log)) == 10
    assert fs.opened > 30
    held = [log.read(offset, 1, 10) for offset in range(6)]
    with pytest.raises(LogOffline):
        log.read(8, 1, 10)
    assert log.directory.is_online
    del held
    assert len(read_all(log)) == 10


class Short(Counting):
    """Has no descriptor for files of one kind while others are open, or never with `at_all`."""

    def __init__(self, suffix: str) -> None:
        super().__init__()
        self.suffix = suffix
        self.at_all = False
        self.opened = 0

    def _check(self, path: str) -> None:
        if path.endswith(self.suffix) and (self.at_all or self.opened > len(self.closed)):
            raise OSError(errno.EMFILE, "Too many open files")

    def open_write(self, path: str, *, create: bool = False, empty: bool = False) -> int:
        self._check(path)
        self.opened += 1
        return super().open_write(path, create=create, empty=empty)

    def write_file(self, path: str, data: bytes, *, sync: bool = False) -> None:
        self._check(path)
        super().write_file(path, data, sync=sync)


def test_cached_files_make_room_for_a_txn_index(tmp_path: Path) -> None:
    """Its records are in the log, so it must be recorded."""
    log = open_log(tmp_path, fs=Short(".txnindex"))
    append(log, idempotent(0, transactional=True))

    end(log, commit=False)

    assert log.aborted_transactions(0, 2) == [(7, 0, 1, 2)]


def test_failed_txn_index_write_takes_the_log_offline(tmp_path: Path) -> None:
    """Its marker is in the log: a second attempt would end nothing, and its records would look committed."""
    fs = Short(".txnindex")
    log = open_log(tmp_path, fs=fs)
    append(log, idempotent(0, transactional=True))
    fs.at_all = True

    with pytest.raises(LogOffline):
        end(log, commit=False)
    with pytest.raises(LogOffline):
        log.read(0, 100, 1)

    crash(log)
    assert open_log(tmp_path).aborted_transactions(0, 2) == [(7, 0, 1, 2)]


def test_failed_epoch_write_is_repeated_by_the_next_append(tmp_path: Path) -> None:
    """The append that needed it has failed, but the directory has not."""
    fs = Short("none of them")
    log = open_log(tmp_path, fs=fs)
    append(log, batch(), leader_epoch=1)
    fs.at_all = True
    fs.suffix = "leader-epoch-checkpoint.tmp"
    with pytest.raises(LogOffline):
        append(log, batch(), leader_epoch=2)
    fs.at_all = False
    fs.suffix = "none of them"

    append(log, batch(), leader_epoch=2)

    close(log)
    assert LeaderEpochs(LOCAL, log.path).entries == ((1, 0), (2, 1))


@pytest.mark.parametrize("suffix", ["3.log", "3.index", "3.timeindex"])
def test_failed_segment_creation_leaves_no_segment(suffix: str, tmp_path: Path) -> None:
    """Batches go to the previous segment; a crash must not cut the log where the failed one began."""
    fs = Short(suffix)
    log = open_log(tmp_path, LogConfig(segment_bytes=500), fs=fs)
    for _ in range(3):
        append(log, sized(100))
    fs.at_all = True
    with pytest.raises(LogOffline):
        append(log, sized(400))
    fs.at_all = False
    fs.suffix = "none of them"

    for size_bytes in (80, 200, 200):
        append(log, sized(size_bytes))

    crash(log)
    assert [record.offset for record in read_all(open_log(tmp_path))] == list(range(6))
