"""Partitions on their way to another log directory: what may fail, and what is left then."""

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
    """On which the partition is: the one of data0."""
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
def test_whose_file_cannot_be_read_is_whose_directory_fails(broker: Moving, disk: Unreadable, value: bytes) -> None:
    """The old disk goes bad, which is why its partitions are moved: the new one is not to go with it."""
    broker.append(value)
    broker.send_to(1)
    if value is BIG:
        broker.copies.release()
    disk.code = errno.EIO
    broker.copies.release()
    assert online(broker) == [False, True]
    assert list(broker.moves.futures()) == []


def test_a_log_that_cannot_be_compared_with_its_copy_is_offline(broker: Moving, disk: Unreadable) -> None:
    """Also where a broken worker has left the copy, which is looked at again."""
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
def test_a_copy_that_a_worker_cannot_write_is_on_a_bad_disk(
    broker: Moving, disk: Unreadable, monkeypatch: pytest.MonkeyPatch, code: int, is_online: bool
) -> None:
    """As if the broker had written there; a process that is out of descriptors says nothing about the disk."""

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
def test_a_move_that_runs_out_of_descriptors_goes_on_later(broker: Moving, disk: Unreadable, value: bytes) -> None:
    """Which is no fault of a disk. Until then there is one directory of the partition's name, which alone grows."""
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


def test_a_copy_that_cannot_be_led_is_none(broker: Moving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its epoch cannot be written, as no descriptor is left: the log stays, alone."""
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
    """Moved to data1, and sent back before that is on the disk."""
    broker.append(BIG)
    broker.background.held = True
    broker.send_to(1)
    while broker.place == "data0":
        broker.copies.release()
    assert broker.send_to(0) is ErrorCode.NONE


def test_a_topic_deleted_while_its_move_waits_for_the_log(broker: Moving) -> None:
    """There is nothing to be copied any more, which is no fault of a disk."""
    waiting(broker)
    broker.partitions.delete("t")
    broker.background.held = False
    broker.background.release()
    broker.advance(500)
    assert not broker.copies.is_wanted
    assert online(broker) == [True, True]
    assert broker.names() == []


def test_a_topic_that_is_made_anew_has_moves_of_its_own(broker: Moving) -> None:
    """Whatever the one before it was waiting for."""
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


def test_a_stop_before_the_copy_is_flushed_revives_no_records(broker: Moving) -> None:
    """The copy, which is found first, has all of them."""
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


def test_retention_goes_on_while_a_partition_moves(broker: Moving) -> None:
    """Also of what a worker was just about to read; the cleaner alone has to wait."""
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


def test_a_file_that_is_missing_though_the_log_has_it_is_a_fault_of_the_disk(broker: Moving) -> None:
    broker.append(BIG)
    broker.send_to(1)
    broker.copies.release()
    Path(broker.partition.log.active_segment.log.path).unlink()
    broker.copies.release()
    assert online(broker) == [False, True]
