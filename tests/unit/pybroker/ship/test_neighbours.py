"""Other programs' files beside a followed log: nothing of them is sent, whatever their names are."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from pybroker.ship.neighbours import Neighbours
from pybroker.ship.positions import PositionFile
from pybroker.ship.shipment import begin
from tests.support.written_logs import WrittenLog, from_beginning, resumed


@pytest.fixture
def log(tmp_path: Path) -> WrittenLog:
    log = WrittenLog(tmp_path)
    log.write("one\n")
    return log


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.mark.parametrize("name", ["access.log.err", "access.log-audit.json", "access.log_secrets", "access.log-b.1"])
def test_live_file_whose_name_begins_alike_is_not_sent(log: WrittenLog, name: str) -> None:
    """It is written while the log is rotated."""
    reader = from_beginning(log)
    assert reader.lines() == ["one"]
    log.rename()
    append(log.path.with_name(name), "secret\n")
    log.write("two\n")

    assert reader.lines() == ["two"]


@pytest.mark.parametrize("begun", ["before", "meanwhile"])
def test_live_file_with_a_rotated_name_is_not_sent(log: WrittenLog, begun: str) -> None:
    """Its inode and first bytes were beside the log before the log was rotated."""
    other = log.rotated(7)
    if begun == "before":
        other.write_text("another program's\n")
    reader = from_beginning(log)
    assert reader.lines() == ["one"]
    if begun == "meanwhile":
        other.write_text("another program's\n")
        assert reader.lines() == []
    log.rename()
    append(other, "secret\n")
    log.write("two\n")

    assert reader.lines() == ["two"]


def test_restart_does_not_send_a_live_file_with_a_rotated_name(log: WrittenLog, tmp_path: Path) -> None:
    """The position file has its inode and first bytes."""
    other = log.rotated(7)
    other.write_text("another program's\n")
    path = tmp_path / "state" / "positions"
    with PositionFile(path, "t") as positions:
        begin([log.path], positions, 1000, from_beginning=True)
    log.rename(2)
    log.write("two\n")
    log.rename(1)
    append(other, "secret\n")
    log.write("three\n")

    with PositionFile(path, "t") as positions:
        key = str(log.path)
        reader = resumed(log, positions.positions[key], positions.since_ns[key], positions.others[key])
        assert reader.lines() == ["one", "two", "three"]


def test_own_files_are_sent_after_a_crash(log: WrittenLog) -> None:
    """Files that were rotated while they were followed are not taken for another program's."""
    reader = from_beginning(log)
    assert reader.lines() == ["one"]
    reached = reader.position()
    for number, text in ((3, "two\n"), (2, "three\n")):
        log.rename(number)
        log.write(text)
        reader.lines()
    log.path.with_name("unrelated").touch()  # the folder changes: it is listed again
    assert reader.lines() == []

    assert resumed(log, reached, 0, reader.follower.others).lines() == ["two", "three"]


def test_copy_in_progress_is_the_logs_own(log: WrittenLog) -> None:
    """copytruncate writes the copy before it truncates the log."""
    reader = from_beginning(log)
    log.write("two\n")
    log.rotated().write_text("one\nt")
    assert reader.lines() == ["one", "two"]
    log.rotated().write_text("one\ntwo\n")
    log.path.with_name("unrelated").touch()
    append(log.rotated(), "three\n")  # the log was written to meanwhile
    log.truncate()
    log.write("four\n")

    assert reader.lines() == ["three", "four"]


def test_rotated_file_with_the_inode_of_another_is_sent(log: WrittenLog) -> None:
    """A file system may give a removed file's inode to the next new one. Its first bytes differ."""
    other = log.rotated(9)
    other.write_text("another program's\n")
    reader = from_beginning(log)
    assert reader.lines() == ["one"]
    log.rename(2)
    other.write_text("two\n")  # the same inode
    other.rename(log.rotated(1))
    log.write("three\n")

    assert reader.lines() == ["two", "three"]


def test_known_files_do_not_change_as_they_grow(log: WrittenLog) -> None:
    """Otherwise the position file would be written each time."""
    other = log.rotated(7)
    other.write_text("x\n")
    reader = from_beginning(log)
    before = reader.follower.others
    append(other, "y\n")
    log.path.with_name("unrelated").touch()
    reader.lines()

    assert reader.follower.others == before
    other.unlink()
    reader.lines()
    assert reader.follower.others == []


def test_file_of_the_same_tick_as_the_last_look_is_found(log: WrittenLog, tmp_path: Path) -> None:
    """The time of the folder's last change is the same before and after it."""
    changed_ns = 1_000_000_000_000
    now_ns = changed_ns + 1_000_000
    neighbours = Neighbours(log.path, now_ns=lambda: now_ns)

    def look() -> int:
        os.utime(tmp_path, ns=(changed_ns, changed_ns))
        neighbours.look(None, lambda: True)
        return len(neighbours.others)

    assert look() == 0
    log.rotated(7).write_text("another program's\n")
    assert look() == 1
    now_ns += 1_000_000_000
    assert look() == 1
    log.rotated(8).write_text("x\n")  # a folder without a change is not listed again
    assert look() == 1


def test_files_that_were_compressed_meanwhile_are_reported(log: WrittenLog) -> None:
    """Their lines cannot be sent any more; those of older archives were."""
    reader = from_beginning(log)
    reader.lines()
    reached, since_ns = reader.position(), log.path.stat().st_mtime_ns
    archive, old = log.path.with_name("access.log.1.gz"), log.path.with_name("access.log.2.gz")
    for path in (archive, old):
        path.write_bytes(gzip.compress(b"two\n"))
    os.utime(old, ns=(0, 0))
    log.rename(3)
    log.write("three\n")
    reader = resumed(log, reached, since_ns)

    assert reader.lines() == ["three"]
    assert reader.reports == [
        f"{archive}: was compressed before its lines could be sent: use logrotate's delaycompress"
    ]
