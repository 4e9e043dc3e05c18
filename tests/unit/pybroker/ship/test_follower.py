"""A log that grows, is renamed or truncated: each line is read once, in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.ship.follower import Follower
from tests.support.written_logs import Reader, WrittenLog, from_beginning


@pytest.fixture
def log(tmp_path: Path) -> WrittenLog:
    return WrittenLog(tmp_path)


def test_line_is_returned_with_its_newline(log: WrittenLog) -> None:
    log.write("one\ntw")
    reader = from_beginning(log)
    assert reader.lines() == ["one"]

    log.write("o\n")
    assert reader.lines() == ["two"]
    assert reader.lines() == []


def test_follower_starts_with_the_incomplete_line_by_default(log: WrittenLog) -> None:
    log.write("one\ntw")
    reader = Reader(log)
    position = reader.follower.start(from_beginning=False)
    assert position is not None
    assert position.offset == 4

    log.write("o\n")
    assert reader.lines() == ["two"]


def test_log_created_later_is_read_from_its_start(log: WrittenLog) -> None:
    reader = Reader(log)
    assert reader.follower.start(from_beginning=False) is None
    assert reader.lines() == []

    log.write("one\n")
    assert reader.lines() == ["one"]


def test_renamed_file_is_read_before_the_new_one(log: WrittenLog) -> None:
    log.write("one\n")
    reader = from_beginning(log)
    log.write("two\n")
    log.rename()
    log.write("three\n")

    assert reader.lines() == ["one", "two", "three"]


def test_renamed_file_is_read_until_the_new_one_has_lines(log: WrittenLog) -> None:
    """Its writer uses it until it reopens the log."""
    log.write("one\n")
    reader = from_beginning(log)
    reader.lines()
    log.rename()
    log.path.touch()
    assert reader.lines() == []

    with log.rotated().open("a") as still:
        still.write("two\n")
    log.write("three\n")
    assert reader.lines() == ["two", "three"]


def test_renamed_file_is_read_until_it_is_quiet(log: WrittenLog) -> None:
    """With several writers, one may be the first to use the new file."""
    log.write("one\n")
    reader = from_beginning(log)
    reader.lines()
    log.rename()
    log.write("three\n")
    reader.now_ns = log.rotated().stat().st_mtime_ns + 1_999_000_000
    assert reader.lines() == []

    with log.rotated().open("a") as still:
        still.write("two\n")
    assert reader.lines() == ["two"]
    reader.now_ns = log.rotated().stat().st_mtime_ns + 2_000_000_000
    assert reader.lines() == ["three"]


def test_last_line_without_newline_is_returned_at_the_end(log: WrittenLog) -> None:
    log.write("one\ntw")
    reader = from_beginning(log)
    log.rename()
    log.write("three\n")

    assert reader.lines() == ["one", "tw", "three"]


def test_several_rotations_between_two_reads(log: WrittenLog) -> None:
    """Files in between are found by names and times."""
    log.write("one\n")
    reader = from_beginning(log)
    for number, text in ((3, "two\n"), (2, "three\n"), (1, "four\n")):
        log.rename(number)
        log.write(text)

    assert reader.lines() == ["one", "two", "three", "four"]


def test_renamed_and_deleted_file_is_read_to_its_end(log: WrittenLog) -> None:
    """As after a compression; it was open already."""
    log.write("one\n")
    reader = from_beginning(log)
    reader.lines()
    log.write("two\n")
    log.rename()
    log.rotated().unlink()
    log.write("three\n")

    assert reader.lines() == ["two", "three"]


def test_other_files_of_the_directory_are_ignored(log: WrittenLog) -> None:
    log.write("one\n")
    reader = from_beginning(log)
    reader.lines()
    log.rename()
    for name in ("access.log.2.gz", "error.log", "access.logs", "error.log.1"):
        (log.path.parent / name).write_text("not this\n")
    log.write("two\n")

    assert reader.lines() == ["two"]
    assert not reader.reports


def test_truncated_log_is_read_from_its_start(log: WrittenLog) -> None:
    log.write("a first line\n")
    reader = from_beginning(log)
    reader.lines()
    log.truncate()
    log.write("two\n")

    assert reader.lines() == ["two"]
    assert reader.reports == [f"{log.path}: was truncated, and no copy was found: its content after byte 13 is lost"]


def test_truncation_is_detected_after_regrowth(log: WrittenLog) -> None:
    """By the first bytes, as the file is longer than before."""
    log.write("one\n")
    reader = from_beginning(log)
    reader.lines()
    log.truncate()
    log.write("another line that is longer\n")

    assert reader.lines() == ["another line that is longer"]


@pytest.mark.parametrize("seen", ["", "one\n", "one\ntw"], ids=["none", "all", "part of a line"])
def test_lines_unread_before_a_truncation_are_in_the_copy(log: WrittenLog, seen: str) -> None:
    log.write(seen)
    reader = from_beginning(log)
    found = reader.lines()
    log.write("one\ntwo\nthree\n"[len(seen) :])
    log.copy_and_truncate()
    log.write("four\n")

    assert [*found, *reader.lines()] == ["one", "two", "three", "four"]
    assert not reader.reports


def test_several_truncations_between_two_reads(log: WrittenLog) -> None:
    log.write("one\n")
    reader = from_beginning(log)
    reader.lines()
    for number, text in ((3, "two\n"), (2, "three\n"), (1, "four\n")):
        log.write(text)
        log.copy_and_truncate(number)

    assert reader.lines() == ["two", "three", "four"]


def test_partial_line_before_a_truncation_is_returned(log: WrittenLog) -> None:
    """Bytes that were read are not dropped."""
    log.write("one\ntw")
    reader = from_beginning(log)
    reader.lines()
    log.truncate()
    log.write("three\n")

    assert reader.lines() == ["tw", "three"]


def test_truncation_during_a_read_returns_no_new_content(log: WrittenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the old position there may be the middle of a new line."""
    log.write("one\n")
    reader = from_beginning(log)
    reader.lines()
    watch = Follower.watch

    def before_the_read(follower: Follower) -> None:
        watch(follower)
        monkeypatch.undo()
        log.truncate()
        log.write("another line\n")

    monkeypatch.setattr(Follower, "watch", before_the_read)
    assert reader.lines() == []
    assert reader.lines() == ["another line"]


def test_unreadable_new_file_is_reported_once_and_retried(log: WrittenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write("one\n")
    reader = from_beginning(log)
    log.rename()
    log.path.mkdir()
    assert reader.lines() == ["one"]
    assert reader.lines() == []
    assert reader.reports == [f"{log.path}: is not a regular file: trying again"]

    log.path.rmdir()
    log.write("two\n")
    assert reader.lines() == ["two"]
