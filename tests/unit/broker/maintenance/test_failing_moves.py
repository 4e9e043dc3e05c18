"""Moves of partitions between log directories: failures, and the state that they leave."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from tests.support.disk_doubles.failing_fs import Unreadable
from tests.support.moving_broker import BIG, CONFIG, Moving


@pytest.fixture
def disk(tmp_path: Path) -> Unreadable:
    """Return the failing disk of data0, which has the partition."""
    return Unreadable(tmp_path / "data0")


@pytest.fixture
def broker(tmp_path: Path, disk: Unreadable) -> Iterator[Moving]:
    made = Moving(tmp_path, disk)
    made.copies.held = True
    yield made
    disk.code = None
    made.moves.close()
    made.close()


def online(broker: Moving) -> list[bool]:
    return [each.is_online for each in broker.logs.directories]


@pytest.mark.parametrize("value", [BIG, b"small"], ids=["by the worker", "on the loop"])
def test_unreadable_file_fails_its_own_directory(broker: Moving, disk: Unreadable, value: bytes) -> None:
    """The old disk is failing, which is why partitions are moved. The new one must stay online."""
    broker.append(value)
    broker.send_to(1)
    if value is BIG:
        broker.copies.release()
    disk.code = errno.EIO
    broker.copies.release()
    assert online(broker) == [False, True]
    assert list(broker.moves.futures()) == []


def test_uncomparable_log_is_offline(broker: Moving, disk: Unreadable) -> None:
    """A copy that a failed worker has left is compared again."""
    broker.append(BIG)
    broker.send_to(1)
    broker.copies.release()
    broker.append(BIG)
    broker.copies.release()
    broker.copies.die()
    broker.advance(5_000)
    disk.code = errno.EIO
    broker.copies.release()
    assert online(broker) == [False, True]


@pytest.mark.parametrize(
    ("code", "is_online"),
    [(errno.EIO, False), (errno.ENOSPC, False), (errno.EMFILE, True)],
    ids=["EIO", "ENOSPC", "EMFILE"],
)
def test_worker_write_error_fails_the_target_directory(
    broker: Moving, disk: Unreadable, monkeypatch: pytest.MonkeyPatch, code: int, is_online: bool
) -> None:
    """As a write of the broker. A process without free descriptors is no fault of the disk."""

    def fail(handle: int, position: int, buffers: object) -> None:
        raise OSError(code, os.strerror(code), "the copy")

    broker.append(BIG)
    broker.send_to(1)
    broker.copies.release()
    with monkeypatch.context() as broken:
        broken.setattr(disk, "write_at", fail)
        broker.copies.release()
    assert online(broker) == [True, is_online]
    assert len(list(broker.moves.futures())) == is_online
    broker.append(b"more")
    broker.copies.held = False
    broker.advance(5_000)
    assert (broker.place, broker.values_now()) == ("data1" if is_online else "data0", [BIG, b"more"])


@pytest.mark.parametrize("value", [BIG, b"small"], ids=["by the worker", "on the loop"])
def test_move_without_descriptors_continues_later(broker: Moving, disk: Unreadable, value: bytes) -> None:
    """No disk is at fault. Until then the partition has one directory, which alone is appended to."""
    broker.append(value)
    broker.send_to(1)
    if value is BIG:
        broker.copies.release()
    disk.code = errno.EMFILE
    broker.copies.release()
    assert online(broker) == [True, True]
    assert broker.names() == ["data0/t-0", "data1/t-0-future"]
    disk.code = None
    broker.append(b"more")
    broker.copies.held = False
    broker.advance(5_000)
    assert (broker.place, broker.values_now()) == ("data1", [value, b"more"])
    assert broker.names() == ["data1/t-0"]


def test_copy_that_cannot_lead_is_dropped(broker: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptor is left to write its leader epoch, so the original stays."""
    fs = broker.logs.directories[1].fs
    write_file = fs.write_file

    def without_epochs(path: str, data: bytes, *, sync: bool = False) -> None:
        if path.startswith(f"{broker.home}/data1/t-0/leader-epoch"):
            raise OSError(errno.EMFILE, "none left", path)
        write_file(path, data, sync=sync)

    monkeypatch.setattr(fs, "write_file", without_epochs)
    broker.send_to(1)
    broker.copies.release()
    broker.append(b"1")
    assert online(broker) == [True, True]
    assert (broker.place, broker.values_now()) == ("data0", [b"1"])
    assert broker.names() == ["data0/t-0"]


def waiting(broker: Moving) -> None:
    """A partition moved to data1 and sent back before the copy is flushed."""
    broker.append(BIG)
    broker.background.held = True
    broker.send_to(1)
    while broker.place == "data0":
        broker.copies.release()
    assert broker.send_to(0) is ErrorCode.NONE


def test_topic_deleted_while_its_move_waits(broker: Moving) -> None:
    """Nothing is left to copy, and no disk is at fault."""
    waiting(broker)
    broker.partitions.delete("t")
    broker.background.held = False
    broker.background.release()
    broker.advance(500)
    assert not broker.copies.is_wanted
    assert online(broker) == [True, True]
    assert broker.names() == []


def test_recreated_topic_has_its_own_moves(broker: Moving) -> None:
    """Whatever its predecessor was waiting for."""
    waiting(broker)
    broker.partitions.delete("t")
    broker.background.held = False
    broker.background.release()
    broker.logs.preferred["t", 0] = broker.logs.directories[1]
    broker.partition = broker.partitions.create("t", b"another topic id", 0, CONFIG)
    broker.append(b"new")
    assert broker.send_to(0) is ErrorCode.NONE
    broker.copies.held = False
    broker.copies.release()
    broker.advance(500)
    assert online(broker) == [True, True]
    assert (broker.place, broker.values_now()) == ("data0", [b"new"])
    assert broker.names() == ["data0/t-0"]


def test_stop_before_the_flush_revives_no_records(broker: Moving) -> None:
    """The copy, which the next start finds first, has all deletions."""
    broker.copies.held = False
    broker.send_to(1)
    assert broker.names() == ["data1/t-0"]
    broker.append(b"1")
    broker.append(b"2")
    broker.partition.delete_records(1)
    broker.background.held = True
    broker.send_to(0)
    assert broker.place == "data0"
    broker.moves.close()
    broker.close()
    again = Moving(broker.home)
    assert again.values_now() == [b"2"]
    again.close()


def test_retention_continues_during_a_move(broker: Moving) -> None:
    """It may delete segments that a worker is about to read. Only the cleaner waits."""
    for value in (b"1", b"2", b"3"):
        broker.append(value, BIG)
        broker.partition.log.roll(broker.partition.log.log_end_offset, broker.clock.now_ms())
    broker.send_to(1)
    broker.copies.release()
    broker.partition.delete_records(4)
    broker.background.retain()
    broker.settle()
    assert broker.partition.log.segments.base_offsets == [4, 6]
    assert broker.partition.log.cleaning is not None
    broker.copies.release()
    assert online(broker) == [True, True]
    broker.copies.held = False
    broker.advance(5_000)
    assert (broker.place, broker.values_now()) == ("data1", [b"3", BIG])
    assert broker.names() == ["data1/t-0"]
    assert not broker.partition.log.copied


def test_missing_file_of_a_log_is_a_disk_fault(broker: Moving) -> None:
    broker.append(BIG)
    broker.send_to(1)
    broker.copies.release()
    Path(broker.partition.log.active_segment.log.path).unlink()
    broker.copies.release()
    assert online(broker) == [False, True]
