"""The choice between two logs of a partition, and copies whose log is missing."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.checkpoints import RECOVERY_POINTS
from storage.errors import DirectoryRefused, LogOffline
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.disk_doubles.failing_fs import Unreadable
from tests.support.logs import T0, append, batch, read_all

TOPIC_ID = bytes(range(16))


def manager_of(
    *paths: Path, place: Path | None = None, on_remark: Callable[[str], None] = lambda line: None
) -> LogManager:
    manager = LogManager([str(path) for path in paths], on_remark=on_remark)
    manager.lock()
    config = LogConfig(file_delete_delay_ms=0)
    manager.load(
        lambda topic: config, T0, assigned_dir_of=lambda topic, partition: None if place is None else str(place)
    )
    return manager


def twin(path: Path, *values: bytes, topic_id: bytes = TOPIC_ID) -> None:
    manager = manager_of(path)
    log = manager.create("t", 0, topic_id, LogConfig(), T0)
    for value in values:
        append(log, batch(value))
    manager.close(T0)


@pytest.mark.parametrize("lengths", [(2, 3), (3, 2), (3, 3), (0, 3)], ids=str)
def test_longer_one_of_log_and_copy_is_kept(tmp_path: Path, lengths: tuple[int, int]) -> None:
    """A crash between the two renames of a move leaves both."""
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
def test_deleted_records_stay_deleted(tmp_path: Path, lengths: tuple[int, int], knows: str) -> None:
    """Either log may know of the deletion, and the process may die before the next checkpoint."""
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


def test_two_logs_with_different_records_are_rejected(tmp_path: Path) -> None:
    """The broker cannot know which of them is right."""
    differing(tmp_path)
    both = LogManager([str(tmp_path / "a"), str(tmp_path / "b")])
    both.lock()
    with pytest.raises(DirectoryRefused, match=r"the partition exists twice with different records, also in "):
        both.load(lambda topic: LogConfig(), T0)
    both.unlock()


def test_differing_logs_metadata_names_the_kept_one(tmp_path: Path) -> None:
    """A failed disk is back, and retention has removed the end of its log from the other log."""
    differing(tmp_path)
    both = manager_of(tmp_path / "a", tmp_path / "b", place=tmp_path / "b")
    log = both.logs["t", 0]
    assert log.path == f"{tmp_path}/b/t-0"
    assert len(read_all(log)) == 3
    (stray,) = tmp_path.glob("*/t-0.*-stray")
    assert stray.parent.name == "a"
    (remark,) = [remark for directory in both.directories for remark in directory.remarks]
    assert remark.endswith(f"renamed to -stray, because the log in use has other records: {log.path}")
    assert sorted(each.log_count for each in both.directories) == [0, 1]
    both.close(T0)


def test_later_records_than_in_the_named_log_are_not_hidden(tmp_path: Path) -> None:
    """The named one may be an older copy: the log in use has all records that were acknowledged after a move."""
    differing(tmp_path)
    both = LogManager([str(tmp_path / "a"), str(tmp_path / "b")])
    both.lock()
    with pytest.raises(DirectoryRefused, match=r"exists twice with different records, also in .* Move the wrong one"):
        both.load(lambda topic: LogConfig(), T0, assigned_dir_of=lambda topic, partition: f"{tmp_path}/a")
    both.unlock()
    assert not list(tmp_path.glob("*/*-stray"))


@pytest.mark.parametrize("named", "ab")
def test_log_without_segments_does_not_replace_the_other(tmp_path: Path, named: str) -> None:
    """Its checkpoint still has the offset at which it ended."""
    for name in "ab":
        twin(tmp_path / name, b"1", b"2")
    for file in (tmp_path / "a/t-0").glob("0*"):
        file.unlink()
    both = manager_of(tmp_path / "a", tmp_path / "b", place=tmp_path / named)
    assert [record.value for record in read_all(both.logs["t", 0])] == [b"1", b"2"]
    both.close(T0)


def test_logs_of_two_topics_are_not_duplicates(tmp_path: Path) -> None:
    """The new log has no records yet, but is not the beginning of the old one."""
    twin(tmp_path / "a", b"of the old one")
    twin(tmp_path / "b", topic_id=bytes(16))
    both = manager_of(tmp_path / "a", tmp_path / "b", place=tmp_path / "b")
    assert read_all(both.logs["t", 0]) == []
    assert len([*tmp_path.glob("a/t-0.*-stray")]) == 1
    both.close(T0)


def load_and_break(manager: LogManager, place: Path, code: int) -> None:
    """Load both logs; afterwards no file on one disk can be read."""

    def assigned_dir_of(topic: str, partition: int) -> str:
        manager.directories[0].fs.code = code  # type: ignore[attr-defined]
        return str(place)

    manager.lock()
    manager.load(lambda topic: LogConfig(), T0, assigned_dir_of=assigned_dir_of)


@pytest.mark.parametrize("broken", "ab")
@pytest.mark.parametrize("named", "ab")
def test_nothing_is_decided_if_a_directory_fails(tmp_path: Path, named: str, broken: str) -> None:
    """Both stay. The log that the metadata names is used and is offline with its directory."""
    differing(tmp_path)
    manager = LogManager([str(tmp_path / name) for name in "ab"], fs=Unreadable(tmp_path / broken))
    load_and_break(manager, tmp_path / named, errno.EIO)
    assert [each.is_online for each in manager.directories] == [broken != "a", broken != "b"]
    assert manager.logs["t", 0].path == f"{tmp_path}/{named}/t-0"
    assert len([*tmp_path.glob("?/t-0")]) == 2
    manager.close(T0)


def test_nothing_is_decided_without_descriptors(tmp_path: Path) -> None:
    """No disk is at fault: this start fails, and another one may have free descriptors."""
    differing(tmp_path)
    manager = LogManager([str(tmp_path / name) for name in "ab"], fs=Unreadable(tmp_path / "a"))
    with pytest.raises(LogOffline, match="Too many open files"):
        load_and_break(manager, tmp_path / "a", errno.EMFILE)
    assert len([*tmp_path.glob("?/t-0")]) == 2
    manager.unlock()


def test_copy_replaces_a_lost_log(tmp_path: Path) -> None:
    """The log's directory is lost: a copy of the same topic is better than nothing, one of another topic is not."""
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


def test_new_topic_does_not_use_the_logs_of_another(tmp_path: Path) -> None:
    """The old topic was deleted while the directory of its moved log was offline."""
    twin(tmp_path / "a", b"of the old one")
    (tmp_path / "a/t-0").rename(tmp_path / "t-0")
    remarks: list[str] = []
    manager = manager_of(tmp_path / "a", on_remark=remarks.append)
    (tmp_path / "t-0").rename(tmp_path / "a/t-0")
    assert read_all(manager.create("t", 0, bytes(16), LogConfig(), T0)) == []
    (stray,) = tmp_path.glob("a/t-0.*-stray")
    assert remarks == [f"{tmp_path}/a/t-0: renamed to -stray, because it is of another topic, which was not in use"]
    assert (stray / "00000000000000000000.log").stat().st_size > 0
    manager.close(T0)
