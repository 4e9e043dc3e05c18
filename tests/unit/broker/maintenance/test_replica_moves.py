"""Moves of partitions between log directories: events meanwhile."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.maintenance.replaced_log import AGAIN_MS
from broker.maintenance.replica_moves import RATE_KEY
from protocol.error_codes import ErrorCode
from runtime.deferred import Deferred
from storage.fs import LOCAL
from storage.log.tasks import FlushTask
from tests.support.moving_broker import BIG, CONFIG, Copies, Moving


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Moving]:
    made = Moving(tmp_path)
    yield made
    made.moves.close()
    made.close()


def test_partition_moves(broker: Moving) -> None:
    """Its log continues in the other directory, with records appended during the copy."""
    broker.append(BIG)
    broker.copies.held = True
    old = broker.partition.log
    assert broker.send_to(1) is ErrorCode.NONE
    assert broker.send_to(1) is ErrorCode.NONE  # no second copy
    assert broker.futures() == [(0, False), (1, True)]
    broker.copies.release()
    broker.append(b"2")
    broker.append(BIG)
    assert broker.names() == ["data0/t-0", "data1/t-0-future"]
    while broker.place == "data0":
        broker.copies.release()
    assert old.closed
    assert broker.values_now() == [BIG, b"2", BIG]
    broker.append(b"3")
    assert broker.values_now()[-1] == b"3"
    assert broker.names() == ["data1/t-0"]
    assert broker.futures() == [(0, False)]
    assert broker.partition.log.recovery_point >= 3


def test_move_can_be_reversed(broker: Moving) -> None:
    """The copy is deleted, and the original stayed in use. A later move starts from scratch."""
    broker.append(BIG)
    broker.copies.held = True
    broker.send_to(1)
    broker.copies.release()
    assert broker.send_to(0) is ErrorCode.NONE
    assert broker.names() == ["data0/t-0"]
    assert broker.partition.log.cleaning is None
    broker.moves._workers = Copies(LOCAL)
    broker.send_to(1)
    assert (broker.place, broker.values_now()) == ("data1", [BIG])


class Assignments:
    """The controller of a cluster: the assignments that moves wait for, and those that are only reported."""

    def __init__(self, broker: Moving) -> None:
        self.asked: list[tuple[bytes, Deferred[None]]] = []
        self.reported: list[bytes] = []
        broker.directory_ids = {
            str(broker.home / f"data{number}"): bytes(15) + bytes((number + 9,)) for number in (0, 1)
        }
        made: Any = broker
        made.assign_first = self.assign_first
        made.placements = SimpleNamespace(record_placements=lambda placed: self.reported.extend(p[2] for p in placed))

    def assign_first(self, topic_id: bytes, index: int, directory_id: bytes) -> Deferred[None]:
        self.asked.append((directory_id, Deferred()))
        return self.asked[-1][1]


def test_copy_waits_for_its_assignment_in_a_cluster(broker: Moving) -> None:
    """The log is still written meanwhile."""
    controller = Assignments(broker)
    broker.append(BIG)
    broker.send_to(1)
    assert [each for each, _ in controller.asked] == [broker.directory_ids[str(broker.home / "data1")]]
    assert broker.place == "data0"
    broker.append(b"2")
    controller.asked[0][1].resolve(None)
    assert (broker.place, broker.values_now()) == ("data1", [BIG, b"2"])
    assert len(controller.asked) == 1


def test_assignment_of_a_move_that_ends_early_is_taken_back(broker: Moving) -> None:
    """Else the controller would look for the replica in a directory that does not have it."""
    controller = Assignments(broker)
    broker.append(BIG)
    broker.send_to(1)
    assert broker.send_to(0) is ErrorCode.NONE
    assert controller.reported == [broker.directory_ids[str(broker.home / "data0")]]
    controller.asked[0][1].resolve(None)
    assert broker.names() == ["data0/t-0"]


def test_deleted_topic_deletes_its_copy(broker: Moving) -> None:
    broker.append(BIG)
    broker.copies.held = True
    broker.send_to(1)
    broker.copies.release()
    broker.partitions.delete("t")
    assert broker.names() == []
    assert list(broker.moves.futures()) == []


@pytest.mark.parametrize("failing", [0, 1])
def test_failed_directory_ends_the_move(broker: Moving, failing: int) -> None:
    """The copy stays for the next start. Nothing is moved while a directory is missing, as it may have a copy."""
    broker.append(BIG)
    broker.copies.held = True
    broker.send_to(1)
    broker.copies.release()
    directory = broker.logs.directories[failing]
    directory.fail("gone")
    broker.partitions.take_offline(directory)
    broker.copies.release()
    assert list(broker.moves.futures()) == []
    assert broker.send_to(1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.partition.online == (failing == 1)
    assert broker.names() == ["data0/t-0", "data1/t-0-future"]


def test_partition_with_an_unopened_log_moves(tmp_path: Path) -> None:
    """The admin tool does not retry."""
    broker = Moving(tmp_path)
    broker.topic("u", config=CONFIG, topic_id=b"u" * 16)
    broker.close()
    broker = Moving(tmp_path, may_wait=True)
    other = broker.topic("u", config=CONFIG, topic_id=b"u" * 16, is_new=False)
    broker.partitions._may_open = lambda: False
    assert not other.online
    assert broker.send_to(1, other) is ErrorCode.NONE
    assert other.online
    broker.moves.close()
    broker.close()


def test_move_continues_after_a_restart(tmp_path: Path) -> None:
    """With the existing copy, as far as it is valid."""
    broker = Moving(tmp_path)
    broker.append(BIG)
    broker.copies.held = True
    broker.send_to(1)
    broker.copies.release()
    broker.append(b"2")
    broker.append(BIG)
    broker.copies.release()
    broker.moves.close()
    broker.close()
    again = Moving(tmp_path)
    assert again.names() == ["data0/t-0", "data1/t-0-future"]
    again.moves.start()
    assert (again.place, again.names()) == ("data1", ["data1/t-0"])
    assert again.values_now() == [BIG, b"2", BIG]
    again.close()


@pytest.mark.parametrize("what", ["another topic", "other records", "twice"])
def test_invalid_copies_are_deleted_at_the_start(tmp_path: Path, what: str) -> None:
    other = Moving(tmp_path / "other")
    other.append(b"else")
    other.close()
    broker = Moving(tmp_path / "own")
    broker.append(b"1")
    broker.close()
    copy = tmp_path / f"own/data1/t-0.{'ab' * 16}-future"
    (tmp_path / "other/data0/t-0").rename(copy)
    if what == "another topic":
        (copy / "partition.metadata").write_text("version: 0\ntopic_id: AQEBAQEBAQEBAQEBAQEBAQ")
    if what == "twice":
        copy.with_name(f"t-0.{'cd' * 16}-future").mkdir()
    again = Moving(tmp_path / "own")
    again.moves.start()
    again.settle()
    assert again.place == ("data0" if what == "another topic" else "data1")
    assert again.values_now() == [b"1"]
    assert again.names() == [f"{again.place}/t-0"]
    again.close()


def test_dead_worker_does_not_end_the_move(broker: Moving) -> None:
    broker.append(b"1")
    broker.copies.held = True
    broker.send_to(1)
    broker.copies.die()
    broker.copies.held = False
    assert broker.place == "data0"
    broker.advance(5_000)
    assert (broker.place, broker.values_now()) == ("data1", [b"1"])


def test_move_is_throttled(broker: Moving) -> None:
    """replica.alter.log.dirs.io.max.bytes.per.second."""
    broker.values[RATE_KEY] = "1000"
    for _ in range(5):
        broker.append(bytes(2_000))
    broker.send_to(1)
    broker.advance(1_000)
    assert broker.place == "data0"
    broker.advance(20_000)
    assert broker.place == "data1"


def test_cordoned_directory_is_no_target(broker: Moving) -> None:
    """A partition that is in it cannot be assigned to it, as in Kafka 4.3.1. Moves out of it are fine."""
    first, second = broker.logs.directories
    second.is_cordoned = True
    assert broker.send_to(1) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert broker.moves.alter("t", 5, str(broker.home / "data1")) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    first.is_cordoned = True
    assert broker.send_to(0) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    second.is_cordoned = False
    assert broker.send_to(1) is ErrorCode.NONE


def test_impossible_moves_are_rejected(broker: Moving) -> None:
    assert broker.moves.alter("t", 0, "data1") is ErrorCode.LOG_DIR_NOT_FOUND
    assert broker.moves.alter("t", 5, str(broker.home / "data1")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.moves.alter("n" * 249, 0, str(broker.home / "data1")) is ErrorCode.INVALID_TOPIC_EXCEPTION
    made = broker.partitions.create("t", broker.partition.topic_id, 5, CONFIG)
    assert made.log.directory.path.endswith("data1")


# -- until the copy is flushed ----------------------------------------------------------------------------------------


@pytest.fixture
def held(broker: Moving) -> Moving:
    """The copy has replaced the log but is not flushed yet."""
    broker.append(b"1")
    broker.background.held = True
    broker.send_to(1)
    assert broker.place == "data1"
    return broker


def synced(broker: Moving, code: int | None) -> None:
    """Run the background thread's work, with this error of each sync."""
    fs = broker.logs.directories[1].fs

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code or 0))

    with pytest.MonkeyPatch.context() as patch:
        if code is not None:
            patch.setattr(fs, "sync", fail)
            patch.setattr(fs, "sync_path", fail)
        broker.background.release()


def kept(broker: Moving) -> list[str]:
    return sorted(f"{path.parent.name}/{path.name.partition('.')[0]}" for path in broker.home.glob("data*/t-0*"))


def test_original_stays_until_the_copy_is_flushed(held: Moving) -> None:
    """A flush without a free descriptor is retried. A power loss before it must not lose the log."""
    synced(held, errno.EMFILE)
    assert kept(held) == ["data0/t-0", "data1/t-0"]
    held.advance(AGAIN_MS)
    synced(held, errno.EMFILE)
    assert kept(held) == ["data0/t-0", "data1/t-0"]
    held.advance(AGAIN_MS)
    synced(held, None)
    held.background.held = False
    assert held.names() == ["data1/t-0"]
    assert held.partition.log.cleaning is None


def test_original_is_deleted_under_constant_flushes(held: Moving) -> None:
    """With flush.messages=1 each produce flushes the copy; one such flush suffices."""
    FlushTask(held.partition.log, held.clock.now_ms(), with_active=True)
    synced(held, None)
    held.background.held = False
    assert held.names() == ["data1/t-0"]


def test_original_stays_if_the_disk_of_the_copy_fails(held: Moving) -> None:
    held.logs.directories[1].on_failure = held.partitions.take_offline
    synced(held, errno.EIO)
    held.advance(AGAIN_MS)
    held.background.held = False
    assert not held.partition.online
    assert held.names() == ["data0/t-0", "data1/t-0"]


def test_topic_deleted_before_the_flush_removes_both(held: Moving) -> None:
    held.partitions.delete("t")
    held.background.held = False
    held.background.release()
    assert held.names() == []


def test_unflushed_copy_is_not_moved_again(held: Moving) -> None:
    """The directory that still has the original is no target either."""
    assert held.send_to(0) is ErrorCode.NONE
    held.advance(500)
    assert held.place == "data1"
    synced(held, None)
    held.background.held = False
    held.advance(500)
    assert (held.place, held.values_now()) == ("data0", [b"1"])
    assert held.names() == ["data0/t-0"]


def test_stop_before_the_flush_keeps_both(held: Moving) -> None:
    """The next start uses one of them."""
    held.moves.close()
    held.close()
    assert kept(held) == ["data0/t-0", "data1/t-0"]
    again = Moving(held.home)
    assert again.values_now() == [b"1"]
    again.close()
