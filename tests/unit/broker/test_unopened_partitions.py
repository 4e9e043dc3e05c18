"""Partitions whose log is opened on first use."""

import errno
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker.observability.metrics.metric_table import AT_MIN_ISR, LEADERS, UNDER_MIN_ISR
from broker.observability.metrics.sources import partitions
from broker.observability.metrics.traffic import Traffic
from broker.replicas.partition import Partition
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
    """Partitions of two log directories after a clean stop: t-0 in the first, t-1 in the second, with one
    record each.
    """

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


def test_partition_is_hosted_without_opening_its_log(stage: Stage):
    """Neither its leader, nor its directory, nor its topic needs the log."""
    one = stage.one
    assert (one.topic, one.index, one.topic_id, one.leader_epoch, str(one)) == ("t", 0, TOPIC_ID, 7, "t-0")
    stage.partitions.lead(one, 8)
    stage.partitions.log_offline()
    assert stage.partitions.directory_of(one) is stage.logs.directories[0]
    assert not stage.logs.logs
    with pytest.raises(AttributeError):
        one.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_first_use_opens_the_log(stage: Stage):
    """The partition stays the same object. It leads from its end offset on, in the current epoch."""
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


def test_log_opened_in_the_background_is_used(stage: Stage):
    """The partition finds it on first use, and appends in its own epoch."""
    assert stage.logs.open("t", 1) is not None
    assert stage.other.is_unopened
    assert stage.partitions.directory_of(stage.other) is stage.logs.directories[1]
    assert stage.other.append(batch(), T0).base_offset == 1
    assert stage.other.log.leader_epochs.latest == 7


def test_configs_reach_unopened_partitions(stage: Stage):
    """Without opening them."""
    assert stage.one.online
    stage.partitions.update_config("t", LogConfig(retention_ms=5))
    assert stage.other.is_unopened
    assert [each.log.config.retention_ms for each in (stage.one, stage.other)] == [5, 5]


def test_unopened_partitions_are_counted(stage: Stage):
    """By the metrics, as in Kafka: available, and at min.insync.replicas, however high that is. No log is opened."""
    stage.partitions.update_config("t", LogConfig(min_insync_replicas=2))
    broker = SimpleNamespace(logs=stage.logs, partitions=stage.partitions, main_parts=SimpleNamespace(replicas=None))

    def counts() -> list[float]:
        values = {metric: value for metric, labels, value in partitions(broker, Traffic()) if not labels}  # type: ignore[arg-type]
        return [values[each] for each in (LEADERS, UNDER_MIN_ISR, AT_MIN_ISR)]  # type: ignore[misc]

    assert counts() == [2, 0, 2]
    assert stage.one.is_unopened
    assert stage.one.online
    assert counts() == [2, 0, 2]
    directory = stage.logs.directories[0]
    directory.fail("broken")
    stage.partitions.take_offline(directory)
    assert counts() == [1, 0, 1]


def test_failed_directory_takes_unopened_partitions_offline(stage: Stage, caplog: pytest.LogCaptureFixture):
    """Those of other directories are unaffected."""
    first = stage.logs.directories[0]
    first.fail("broken")
    assert stage.partitions.take_offline(first) == [stage.one] == stage.woken
    assert stage.one.find_log() is None
    assert not stage.one.is_unopened
    assert not stage.one.online
    assert stage.partitions.directory_of(stage.one) is None
    assert stage.other.is_unopened
    assert "Partitions are offline: t-0" in caplog.text


def test_unopened_partitions_go_offline_in_one_line(stage: Stage, caplog: pytest.LogCaptureFixture):
    """However many they are; their logs are not opened for it."""
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


def test_log_that_cannot_be_opened_is_offline(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Until the next start, with the topic's values; the log line names it."""
    undo = stage.fail_to_open(monkeypatch, StorageError("strange"))
    assert not stage.one.online
    undo()
    assert stage.one.find_log() is None
    assert stage.one.log_config == LogConfig()
    with pytest.raises(LogOffline, match="StorageError: strange"):
        _ = stage.one.log_end_offset
    stage.partitions.log_offline()
    assert [each.message for each in caplog.records] == ["Partitions are offline: t-0"]
    assert stage.other.is_unopened
    assert stage.logs.directories[0].is_online


def test_without_descriptors_it_stays_unopened(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    """Requests meanwhile get the error of an offline partition, and no exception."""
    undo = stage.fail_to_open(monkeypatch, OSError(errno.EMFILE, "too many open files"))
    assert not stage.one.online
    assert stage.one.find_log() is None
    assert not stage.one.is_under_min_isr()
    with pytest.raises(LogOffline, match="too many open files"):
        stage.one.append(batch(), T0)
    undo()
    assert stage.one.online


def test_open_may_wait_for_the_next_turn(stage: Stage):
    """Requests meanwhile get a retriable error."""
    may_open = [True, False, False]
    partitions = Partitions(stage.logs, 1, Clock(), stage.woken.append, may_open=lambda: may_open.pop(0))
    one, other = (partitions.create("t", TOPIC_ID, index, LogConfig(), is_new=False) for index in range(2))
    assert [one.online, other.online, one.online] == [True, False, True]
    with pytest.raises(LogOffline, match="opened soon"):
        other.append(batch(), T0)
    may_open.append(True)
    assert other.online
    assert not may_open


def test_required_open_counts_to_the_turns_limit(stage: Stage):
    """It does not wait, but others do. Open and failed logs do not count."""
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


def test_log_of_another_topic_is_not_used(stage: Stage):
    """The start could not check the topic id without opening it."""
    partitions = Partitions(stage.logs, 1, Clock(), stage.woken.append)
    one = partitions.create("t", b"n" * 16, 0, LogConfig(), is_new=False)
    with pytest.raises(LogOffline, match="is of another topic"):
        one.append(batch(), T0)


def test_log_with_a_flipped_bit_in_its_topic_id_is_used(stage: Stage):
    """As at a start, which had no reason to check this log."""
    nearly = bytes([TOPIC_ID[0] ^ 128, *TOPIC_ID[1:]])
    partitions = Partitions(stage.logs, 1, Clock(), stage.woken.append)
    one = partitions.create("t", nearly, 0, LogConfig(), is_new=False)
    one.append(batch(), T0)
    assert one.log.topic_id == nearly
    assert read_topic_id(LOCAL, one.log.path) == nearly


def test_failed_open_does_not_block_others(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    """However often it is requested in a turn."""
    undo = stage.fail_to_open(monkeypatch, StorageError("strange"))
    assert not stage.one.online
    undo()
    may_open = [True]
    partitions = Partitions(stage.logs, 1, Clock(), stage.woken.append, may_open=lambda: may_open.pop(0))
    one, other = (partitions.create("t", TOPIC_ID, index, LogConfig(), is_new=False) for index in range(2))
    assert [one.online, one.online, other.online] == [False, False, True]


def test_deleted_while_unopened(stage: Stage):
    """Its directory is removed unopened. Holders of the old object find neither it nor a new topic of that name."""
    stage.partitions.delete("t")
    assert stage.woken == [stage.one, stage.other]
    assert not stage.logs.unopened
    assert not stage.one.online
    stage.partitions.create("t", b"n" * 16, 0, LogConfig())
    assert not stage.one.online
    with pytest.raises(LogOffline, match="the topic is deleted"):
        stage.one.append(batch(), T0)
