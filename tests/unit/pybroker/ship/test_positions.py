"""A restart continues behind the acknowledged lines, even if the file was renamed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from pybroker.ship.log_file import LogFile
from pybroker.ship.positions import Position, PositionFile, PositionFileError
from pybroker.ship.progress import Progress
from tests.support.written_logs import WrittenLog, from_beginning, resumed


@pytest.fixture
def log(tmp_path: Path) -> WrittenLog:
    log = WrittenLog(tmp_path)
    log.write("one\ntwo\n")
    return log


def position(log: WrittenLog) -> Position:
    """Return the position at the end of the log."""
    reader = from_beginning(log)
    reader.lines()
    reader.follower.close()
    return reader.position()


def test_restart_continues_at_the_position(log: WrittenLog) -> None:
    reached = position(log)
    log.write("three\n")

    assert resumed(log, reached).lines() == ["three"]


def test_restart_reads_the_renamed_file_and_all_later_ones(log: WrittenLog) -> None:
    reached = position(log)
    log.write("three\n")
    log.rename(2)
    log.write("four\n")
    log.rename(1)
    log.write("five\n")

    assert resumed(log, reached).lines() == ["three", "four", "five"]


def test_restart_finds_copies_of_a_log_that_was_empty(log: WrittenLog) -> None:
    log.truncate()
    empty = from_beginning(log).follower._files[0].position_at(0)
    since_ns = log.path.stat().st_mtime_ns
    for number, text in ((2, "three\n"), (1, "four\n")):
        log.write(text)
        log.copy_and_truncate(number)

    assert resumed(log, empty, since_ns).lines() == ["three", "four"]


def test_restart_finds_later_files_while_the_log_is_missing(log: WrittenLog) -> None:
    reached = position(log)
    log.rename(2)
    log.write("three\n")
    log.rename(1)

    assert resumed(log, reached).lines() == ["three"]


def test_restart_finds_the_rest_of_a_truncated_log_in_its_copy(log: WrittenLog) -> None:
    reached = position(log)
    log.write("three\n")
    log.copy_and_truncate()
    log.write("four\n")

    assert resumed(log, reached).lines() == ["three", "four"]


def test_new_file_with_a_reused_inode_is_read_from_the_start(log: WrittenLog) -> None:
    """Its first bytes differ. Some file systems reuse an inode at once."""
    reached = position(log)
    log.truncate()
    log.write("other first bytes\nnew\n")
    reader = resumed(log, reached, since_ns=time.time_ns())

    assert reader.lines() == ["other first bytes", "new"]
    assert reader.reports == [f"{log.path}: the file that was sent to byte 8 was removed or compressed"]


def test_file_shorter_than_the_position_is_another(log: WrittenLog) -> None:
    reached = position(log)
    log.truncate()
    log.write("one\n")

    assert resumed(log, reached, since_ns=time.time_ns()).lines() == ["one"]


def test_missing_file_is_followed_by_later_ones(log: WrittenLog) -> None:
    """Older files are not sent."""
    reached = position(log)
    log.rotated(9).write_text("old\n")
    os.utime(log.rotated(9), ns=(0, 0))
    since_ns = log.path.stat().st_mtime_ns
    log.path.unlink()
    log.write("three\n")
    log.rename(1)
    log.write("four\n")

    assert resumed(log, reached, since_ns).lines() == ["three", "four"]


def test_log_created_later_is_read_from_its_start(log: WrittenLog) -> None:
    assert resumed(log, None).lines() == ["one", "two"]


def test_log_rotated_unseen_is_read_from_its_start(log: WrittenLog) -> None:
    """Files that were rotated before the follower started are not sent."""
    log.rename(2)
    os.utime(log.rotated(2), ns=(5, 5))
    log.write("three\n")
    log.rename(1)
    log.write("four\n")

    assert resumed(log, None, since_ns=6).lines() == ["three", "four"]


@pytest.mark.parametrize("start", [None, Position(1, 2, 0, 0, "")], ids=["was not there", "was empty"])
def test_first_sent_line_identifies_the_file(log: WrittenLog, start: Position | None) -> None:
    """Nothing was acknowledged, and positions of another log are written later than this one's first file."""
    reader, progress = from_beginning(log), Progress(start)
    for file, line in reader.follower.read():
        progress.sending(file, line.start, line.end)
    reached = progress.position
    reader.follower.close()
    log.rename()
    log.write("three\n")

    assert reached is not None
    assert resumed(log, reached, since_ns=1 << 62).lines() == ["one", "two", "three"]


def test_crash_before_the_position_is_written_loses_no_line(log: WrittenLog, tmp_path: Path) -> None:
    path = tmp_path / "state" / "positions.json"
    reader = from_beginning(log)
    with PositionFile(path, "t") as positions:
        positions.write({str(log.path): reader.follower._files[0].position_at(0)})
        assert reader.lines() == ["one", "two"]

    with PositionFile(path, "t") as positions:
        assert resumed(log, positions.positions[str(log.path)]).lines() == ["one", "two"]


def test_position_stays_before_the_first_unacknowledged_line(log: WrittenLog) -> None:
    """Acknowledgements of several partitions come in any order."""
    file = LogFile(log.path, 100)
    progress = Progress(file.position_at(0))
    first, second, third = (progress.sending(file, end - 4, end) for end in (4, 8, 12))
    file.read()

    progress.acknowledged(second)
    assert progress.position == file.position_at(0)
    progress.acknowledged(first)
    assert progress.position == file.position_at(8)
    progress.forget_last(third)
    assert progress.position == file.position_at(8)


def test_positions_are_written_and_read(tmp_path: Path) -> None:
    """Beside those of logs that this process does not follow."""
    path = tmp_path / "p.json"
    one, two = Position(1, 2, 30, 4, "ab"), Position(1, 3, 0, 0, "cd")
    with PositionFile(path, "t") as positions:
        positions.begin({"/a": None, "/b": one})
    with PositionFile(path, "t") as positions:
        assert positions.since_ns == dict.fromkeys(("/a", "/b"), path.stat().st_mtime_ns)
        positions.write({"/b": two})
    with PositionFile(path, "t") as positions:
        assert positions.positions == {"/a": None, "/b": two}


def test_another_log_does_not_change_the_others_times(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    with PositionFile(path, "t") as positions:
        positions.begin({"/a": None})
    os.utime(path, ns=(5, 5))
    with PositionFile(path, "t") as positions:
        positions.begin({"/b": None})
        assert positions.since_ns == {"/a": 5, "/b": path.stat().st_mtime_ns}
        positions.write({"/b": None})
        assert positions.since_ns["/a"] == 5


def test_failed_write_keeps_the_position_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.json"
    with PositionFile(path, "t") as positions:
        positions.begin({"/a": None})
        monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(OSError, match="No space"):
            positions.write({"/b": None})
    assert json.loads(path.read_text())["files"] == {"/a": None}


def text(version: int = 1, topic: str = "t", **position: object) -> str:
    whole = {"device": 1, "inode": 2, "offset": 9, "head_bytes": 4, "head_sha256": "ab", **position}
    return json.dumps({"version": version, "topic": topic, "files": {"/a": whole}})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "is not a position file"),
        ("[]", "is not a position file"),
        ("[" * 100_000, "is not a position file"),
        ('{"version": 1}', "is not a position file"),
        (text(offset="9"), "is not a position file"),
        (text(offset=-3), "is not a position file"),
        (text(more=1), "is not a position file"),
        (text(version=2), "has version 2, but only 1 is supported"),
        (text(topic="other"), "belongs to the topic other"),
    ],
)
def test_bad_position_file_is_refused_in_one_line(tmp_path: Path, content: str, problem: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(content)

    with pytest.raises(PositionFileError, match=problem) as refused:
        PositionFile(path, "t")
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)
    assert path.read_text() == content


def test_position_file_is_for_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    with PositionFile(path, "t"), pytest.raises(PositionFileError, match="another pybroker produce is using it"):
        PositionFile(path, "t")
    PositionFile(path, "t").close()
