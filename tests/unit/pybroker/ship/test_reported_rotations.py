"""Rotations that users of other log shippers reported as lost or repeated lines (`tests/data/reports.tsv`)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.written_logs import WrittenLog, from_beginning, resumed


@pytest.fixture
def log(tmp_path: Path) -> WrittenLog:
    return WrittenLog(tmp_path)


def test_dated_copies_repeat_no_line(log: WrittenLog) -> None:
    """copytruncate with dateext: each copy has a name of its own, and stays."""
    log.write("one\n")
    reader = from_beginning(log)
    found = reader.lines()
    for day in range(1, 5):
        log.write(f"last of day {day}\n")
        found += reader.lines()
        shutil.copy2(log.path, log.path.with_name(f"access.log-2026010{day}"))
        log.truncate()
        found += reader.lines()
        log.write(f"first of day {day + 1}\n")
        found += reader.lines()

    days = [line for day in range(1, 5) for line in (f"last of day {day}", f"first of day {day + 1}")]
    assert found == ["one", *days]
    assert reader.reports == []


def test_two_truncations_while_nothing_follows_lose_no_line(log: WrittenLog) -> None:
    """The first copy is renamed by the second rotation."""
    log.write("one\n")
    reader = from_beginning(log)
    reader.lines()
    reached, since_ns, others = reader.position(), log.path.stat().st_mtime_ns, reader.follower.others
    reader.follower.close()
    log.write("two\n")
    log.copy_and_truncate(1)
    log.write("three\n")
    log.rotated(1).rename(log.rotated(2))
    log.copy_and_truncate(1)
    log.write("four\n")

    assert resumed(log, reached, since_ns, others).lines() == ["two", "three", "four"]


def test_partial_line_at_the_stop_is_sent_whole_later(log: WrittenLog) -> None:
    """It was read, but not sent."""
    log.write("one\npart of ")
    reader = from_beginning(log)
    assert reader.lines() == ["one"]
    reached = reader.position()
    reader.follower.close()
    log.write("a line\n")

    assert resumed(log, reached).lines() == ["part of a line"]


def test_file_that_is_written_anew_sends_only_new_lines(log: WrittenLog) -> None:
    """Some editors and scripts write the whole content again, into the same file."""
    log.write("one\ntwo\n")
    reader = from_beginning(log)
    assert reader.lines() == ["one", "two"]
    log.path.write_text("one\ntwo\nthree\n")

    assert reader.lines() == ["three"]


def test_rotated_and_compressed_at_once_repeats_no_line(log: WrittenLog) -> None:
    """Without delaycompress; the follower has the old file open."""
    log.write("one\n")
    reader = from_beginning(log)
    assert reader.lines() == ["one"]
    log.write("two\n")
    log.rename()
    log.rotated().with_suffix(".1.gz").write_bytes(b"\x1f\x8b")
    log.rotated().unlink()
    log.write("three\n")

    assert reader.lines() == ["two", "three"]
    assert reader.reports == []
