"""Of two logs of a partition which one stays; copies whose log is gone."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from storage.checkpoints import RECOVERY_POINTS
from storage.errors import DirectoryRefused, LogOffline
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.failing_fs import Unreadable
from tests.support.logs import T0, append, batch, read_all

TOPIC_ID = bytes(range(16))


def manager_of(*paths: Path, place: Path | None = None) -> LogManager:
    manager = LogManager([str(path) for path in paths])
    manager.lock()
    config = LogConfig(file_delete_delay_ms=0)
    manager.load(lambda topic: config, T0, place_of=lambda topic, partition: None if place is None else str(place))
    return manager


def twin(path: Path, *values: bytes, topic_id: bytes = TOPIC_ID) -> None:
    manager = manager_of(path)
    log = manager.create("t", 0, topic_id, LogConfig(), T0)
    for value in values:
        append(log, batch(value))
    manager.close(T0)


@pytest.mark.parametrize("lengths", [(2, 3), (3, 2), (3, 3), (0, 3)], ids=str)
def test_of_a_log_and_its_copy_the_longer_one_stays(tmp_path: Path, lengths: tuple[int, int]) -> None:
    """As a crash leaves them between the two names that a move changes."""
    values = (b"1", b"2", b"3")
    for name, length in zip("ab", lengths, strict=True):
        twin(tmp_path / name, *values[:length])
    both = manager_of(tmp_path / "a", tmp_path / "b")
    assert [record.value for record in read_all(both.logs["t", 0])] == list(values)
    assert sorted(each.log_count for each in both.directories) == [0, 1]
    for task in both.removal_tasks(T0):
        task.run()
        task.apply()
    assert len([*tmp_path.glob("?/t-0*")]) == 1
    both.close(T0)


@pytest.mark.parametrize("lengths", [(3, 5), (5, 3), (4, 4)], ids=str)
@pytest.mark.parametrize("knows", "ab")
def test_what_was_deleted_stays_deleted(tmp_path: Path, lengths: tuple[int, int], knows: str) -> None:
    """Whichever of the two has it; also if the process dies before the next checkpoint. What stays is on the disk."""
    for name, length in zip("ab", lengths, strict=True):
        twin(tmp_path / name, *(b"%d" % number for number in range(length)))
    alone = manager_of(tmp_path / knows)
    alone.logs["t", 0].delete_records(2)
    alone.close(T0)
    for name in "ab":
        (tmp_path / name / RECOVERY_POINTS).unlink()
    both = manager_of(tmp_path / "a", tmp_path / "b")
    log = both.logs["t", 0]
    assert (log.log_start_offset, log.log_end_offset) == (2, max(lengths))
    assert log.recovery_point == max(lengths)
    both.unlock()
    again = manager_of(tmp_path / "a", tmp_path / "b")
    assert again.logs["t", 0].log_start_offset == 2
    again.close(T0)


def differing(home: Path) -> None:
    twin(home / "a", b"1", b"2")
    twin(home / "b", b"1", b"other", b"3")


def test_two_logs_with_different_records_are_refused(tmp_path: Path) -> None:
    """Nobody knows which of them is the right one."""
    differing(tmp_path)
    both = LogManager([str(tmp_path / "a"), str(tmp_path / "b")])
    both.lock()
    with pytest.raises(DirectoryRefused, match=r"the partition exists twice with different records, also in "):
        both.load(lambda topic: LogConfig(), T0)
    both.unlock()


@pytest.mark.parametrize("named", "ab")
def test_of_two_logs_with_different_records_the_one_stays_that_the_metadata_names(tmp_path: Path, named: str) -> None:
    """As when a disk that had failed is back, and retention has removed elsewhere what its log ends with."""
    differing(tmp_path)
    both = manager_of(tmp_path / "a", tmp_path / "b", place=tmp_path / named)
    log = both.logs["t", 0]
    assert log.path == f"{tmp_path}/{named}/t-0"
    assert len(read_all(log)) == (2 if named == "a" else 3)
    (stray,) = tmp_path.glob("*/t-0.*-stray")
    assert stray.parent.name == "ab".replace(named, "")
    (remark,) = [remark for directory in both.directories for remark in directory.remarks]
    assert remark.endswith(f"renamed to -stray, because the log in use has other records: {log.path}")
    assert sorted(each.log_count for each in both.directories) == [0, 1]
    both.close(T0)


def test_logs_of_two_topics_are_no_twins(tmp_path: Path) -> None:
    """The new one has no records yet, and is not the beginning of the old one."""
    twin(tmp_path / "a", b"of the old one")
    twin(tmp_path / "b", topic_id=bytes(16))
    both = manager_of(tmp_path / "a", tmp_path / "b", place=tmp_path / "b")
    assert read_all(both.logs["t", 0]) == []
    assert len([*tmp_path.glob("a/t-0.*-stray")]) == 1
    both.close(T0)


def load_and_break(manager: LogManager, place: Path, code: int) -> None:
    """From when all is open no file can be read on the disk any more."""

    def place_of(topic: str, partition: int) -> str:
        manager.directories[0].fs.code = code  # type: ignore[attr-defined]
        return str(place)

    manager.lock()
    manager.load(lambda topic: LogConfig(), T0, place_of=place_of)


@pytest.mark.parametrize("broken", "ab")
@pytest.mark.parametrize("named", "ab")
def test_of_a_directory_that_fails_meanwhile_nothing_is_decided(tmp_path: Path, named: str, broken: str) -> None:
    """Both stay where they are. What the metadata names is the log, and with the directory it is offline."""
    differing(tmp_path)
    manager = LogManager([str(tmp_path / name) for name in "ab"], fs=Unreadable(tmp_path / broken))
    load_and_break(manager, tmp_path / named, errno.EIO)
    assert [each.is_online for each in manager.directories] == [broken != "a", broken != "b"]
    assert manager.logs["t", 0].path == f"{tmp_path}/{named}/t-0"
    assert len([*tmp_path.glob("?/t-0")]) == 2
    manager.close(T0)


def test_what_cannot_be_compared_for_want_of_descriptors_is_not_decided(tmp_path: Path) -> None:
    """Which is no fault of a disk: the start fails, and another one may have them."""
    differing(tmp_path)
    manager = LogManager([str(tmp_path / name) for name in "ab"], fs=Unreadable(tmp_path / "a"))
    with pytest.raises(LogOffline, match="Too many open files"):
        load_and_break(manager, tmp_path / "a", errno.EMFILE)
    assert len([*tmp_path.glob("?/t-0")]) == 2
    manager.unlock()


def test_a_copy_without_its_log_takes_its_place(tmp_path: Path) -> None:
    """The log's directory is gone for good: a copy of this topic is better than nothing, one of another is not."""
    twin(tmp_path / "a", b"1", b"2")
    (tmp_path / "a/t-0").rename(tmp_path / f"a/t-0.{'ab' * 16}-future")
    manager = manager_of(tmp_path / "a")
    assert manager.logs == {}
    other = manager.create("t", 0, bytes(16), LogConfig(), T0)
    assert read_all(other) == []
    manager.delete("t", 0, "cd" * 16, T0)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(), T0)
    assert [record.value for record in read_all(log)] == [b"1", b"2"]
    assert manager.futures == []
    manager.close(T0)


def test_a_new_topic_has_nothing_of_a_directory_that_another_left(tmp_path: Path) -> None:
    """As one was deleted while the directory that it had moved to was offline, and this one is not."""
    twin(tmp_path / "a", b"of the old one")
    (tmp_path / "a/t-0").rename(tmp_path / "t-0")
    manager = manager_of(tmp_path / "a")
    (tmp_path / "t-0").rename(tmp_path / "a/t-0")
    assert read_all(manager.create("t", 0, bytes(16), LogConfig(), T0)) == []
    (stray,) = tmp_path.glob("a/t-0.*-stray")
    assert (stray / "00000000000000000000.log").stat().st_size > 0
    manager.close(T0)
