"""Partitions whose log is opened when somebody needs it first."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.replicas.partition import OfflineLog, Partition
from broker.replicas.partitions import Partitions
from runtime.clock import Clock
from storage.checkpoints import read_topic_id
from storage.errors import LogOffline, StorageError
from storage.fs import LOCAL
from storage.log_config import LogConfig
from storage.log_manager import LogManager
from tests.support.logs import T0, batch

TOPIC_ID = bytes(range(16))


class Stage:
    """Partitions of two log directories after a clean stop: t-0 in the first, t-1 in the second; one record each."""

    def __init__(self, root: Path) -> None:
        paths = [str(root / name) for name in "ab"]
        manager = LogManager(paths)
        manager.lock()
        manager.load(lambda topic: LogConfig(), T0)
        for index in range(2):
            manager.create("t", index, TOPIC_ID, LogConfig(), T0).append(batch(), leader_epoch=3, now_ms=T0)
        manager.close(T0)
        self.logs = LogManager(paths)
        self.logs.lock()
        self.logs.load(lambda topic: LogConfig(), T0, may_wait=lambda directory, stored: True)
        self.woken: list[Partition] = []
        self.partitions = Partitions(self.logs, 1, Clock(), self.woken.append)
        self.one, self.other = (
            self.partitions.create("t", TOPIC_ID, index, LogConfig(), leader_epoch=7, is_new=False)
            for index in range(2)
        )

    def fail_to_open(self, monkeypatch: pytest.MonkeyPatch, error: Exception) -> Callable[[], None]:
        def load_log(*_: object, **of: object) -> None:
            raise error

        monkeypatch.setattr("storage.unopened_logs.load_log", load_log)
        return monkeypatch.undo


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_partition_is_hosted_without_its_log(stage: Stage):
    """Who leads it, where it lies, what it is: none of that opens anything."""
    one = stage.one
    assert (one.topic, one.index, one.topic_id, one.leader_epoch, str(one)) == ("t", 0, TOPIC_ID, 7, "t-0")
    stage.partitions.lead(one, 8)
    stage.partitions.tell_offline()
    assert stage.partitions.directory_of(one) is stage.logs.directories[0]
    assert not stage.logs.logs
    with pytest.raises(AttributeError):
        one.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_it_becomes_an_ordinary_one_when_the_log_is_needed(stage: Stage):
    """The same object, as others may refer to it; it leads from the end on in the epoch that it has by then."""
    one = stage.one
    stage.partitions.lead(one, 9)
    assert one.is_unopened
    assert (one.log_end_offset, one.high_watermark, one.online) == (1, 1, True)
    assert not one.is_unopened
    assert one.log is stage.logs.logs["t", 0]
    assert [tuple(each) for each in one.log.leader_epochs.entries] == [(3, 0), (9, 1)]
    assert list(stage.logs.unopened) == [("t", 1)]
    assert one.append(batch(), T0).base_offset == 1
    assert stage.woken == [one]


def test_a_log_that_was_opened_in_the_background_is_taken(stage: Stage):
    """The partition learns of it when it needs it, and appends in its own epoch."""
    assert stage.logs.open("t", 1) is not None
    assert stage.other.is_unopened
    assert stage.partitions.directory_of(stage.other) is stage.logs.directories[1]
    assert stage.other.append(batch(), T0).base_offset == 1
    assert stage.other.log.leader_epochs.latest == 7


def test_configuration_reaches_those_that_wait(stage: Stage):
    """And opens none."""
    assert stage.one.online
    stage.partitions.update_config("t", LogConfig(retention_ms=5))
    assert stage.other.is_unopened
    assert [each.log.config.retention_ms for each in (stage.one, stage.other)] == [5, 5]


def test_a_directory_that_fails_takes_those_along_that_wait(stage: Stage, caplog: pytest.LogCaptureFixture):
    """Those of the other directory wait on."""
    first = stage.logs.directories[0]
    first.fail("broken")
    assert stage.partitions.take_offline(first) == [stage.one] == stage.woken
    assert isinstance(stage.one.log, OfflineLog)
    assert not stage.one.online
    assert stage.partitions.directory_of(stage.one) is None
    assert stage.other.is_unopened
    assert "Partitions are offline: t-0" in caplog.text


def test_partitions_that_wait_go_offline_in_one_line(stage: Stage, caplog: pytest.LogCaptureFixture):
    """However many they are: nobody looks for each of them first."""
    for directory in stage.logs.directories:
        directory.fail("broken")
        stage.partitions.take_offline(directory)
    assert [each.message for each in caplog.records] == [
        "Partitions are offline: t-0",
        "Partitions are offline: t-0, t-1",
    ]
    assert not stage.one.is_unopened
    assert not stage.other.is_unopened
    with pytest.raises(LogOffline, match="broken"):
        stage.other.append(batch(), T0)


def test_a_log_that_cannot_be_opened_is_offline(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """For good, with the topic's values, and named with the others that are."""
    undo = stage.fail_to_open(monkeypatch, StorageError("strange"))
    assert not stage.one.online
    undo()
    assert isinstance(stage.one.log, OfflineLog)
    assert stage.one.log.config == LogConfig()
    with pytest.raises(LogOffline, match="StorageError: strange"):
        _ = stage.one.log_end_offset
    stage.partitions.tell_offline()
    assert [each.message for each in caplog.records] == ["Partitions are offline: t-0"]
    assert stage.other.is_unopened
    assert stage.logs.directories[0].is_online


def test_without_a_descriptor_it_waits_on(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    """Who asks meanwhile finds it offline, as if its directory had failed: a look at the log raises nothing."""
    undo = stage.fail_to_open(monkeypatch, OSError(errno.EMFILE, "too many open files"))
    assert not stage.one.online
    assert isinstance(stage.one.log, OfflineLog)
    assert not stage.one.is_under_min_isr()
    with pytest.raises(LogOffline, match="too many open files"):
        stage.one.append(batch(), T0)
    undo()
    assert stage.one.online


def test_what_may_not_be_opened_in_this_turn_is_open_in_another(stage: Stage):
    """Who asks for it hears that it is offline, and may ask again."""
    may_open = [True, False, False]
    partitions = Partitions(stage.logs, 1, Clock(), stage.woken.append, may_open=lambda: may_open.pop(0))
    one, other = (partitions.create("t", TOPIC_ID, index, LogConfig(), is_new=False) for index in range(2))
    assert [one.online, other.online, one.online] == [True, False, True]
    with pytest.raises(LogOffline, match="opened in a moment"):
        other.append(batch(), T0)
    may_open.append(True)
    assert other.online
    assert not may_open


def test_what_has_to_be_opened_counts_as_opened_in_this_turn(stage: Stage):
    """It does not wait; others do for that. What is open, or cannot be opened, takes nobody's place."""
    counted: list[None] = []
    partitions = Partitions(stage.logs, 1, Clock(), stage.woken.append, may_open=lambda: bool(counted.append(None)))
    one, other = (partitions.create("t", TOPIC_ID, index, LogConfig(), is_new=False) for index in range(2))
    stage.logs.directories[1].fail("broken")
    for _ in range(2):
        for each in (one, other):
            partitions.open_now(each)
    assert list(stage.logs.logs) == [("t", 0)]
    assert one.online
    assert len(counted) == 1


def test_a_log_of_another_topic_is_not_taken(stage: Stage):
    """A start could not look whose it is."""
    partitions = Partitions(stage.logs, 1, Clock(), stage.woken.append)
    one = partitions.create("t", b"n" * 16, 0, LogConfig(), is_new=False)
    with pytest.raises(LogOffline, match="is of another topic"):
        one.append(batch(), T0)


def test_a_log_with_a_bit_of_its_topic_id_flipped_is_taken(stage: Stage):
    """As at a start: nothing told that one that a look at it was due."""
    nearly = bytes([TOPIC_ID[0] ^ 128, *TOPIC_ID[1:]])
    partitions = Partitions(stage.logs, 1, Clock(), stage.woken.append)
    one = partitions.create("t", nearly, 0, LogConfig(), is_new=False)
    one.append(batch(), T0)
    assert one.log.topic_id == nearly
    assert read_topic_id(LOCAL, one.log.path) == nearly


def test_one_that_cannot_be_opened_keeps_no_other_from_that(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    """However often somebody looks at it in a turn."""
    undo = stage.fail_to_open(monkeypatch, StorageError("strange"))
    assert not stage.one.online
    undo()
    may_open = [True]
    partitions = Partitions(stage.logs, 1, Clock(), stage.woken.append, may_open=lambda: may_open.pop(0))
    one, other = (partitions.create("t", TOPIC_ID, index, LogConfig(), is_new=False) for index in range(2))
    assert [one.online, one.online, other.online] == [False, False, True]


def test_deleted_while_it_waits(stage: Stage):
    """Its directory goes, unopened; who still has it finds nothing, nor what has its name next."""
    stage.partitions.delete("t")
    assert stage.woken == [stage.one, stage.other]
    assert not stage.logs.unopened
    assert not stage.one.online
    stage.partitions.create("t", b"n" * 16, 0, LogConfig())
    assert not stage.one.online
    with pytest.raises(LogOffline, match="the topic is deleted"):
        stage.one.append(batch(), T0)
