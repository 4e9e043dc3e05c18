"""Partition and Partitions: look-up, creation, deletion, leadership, and waking of waiting requests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.error_codes import ErrorCode
from protocol.records.batch import parse_header
from protocol.records.builder import BatchBuilder
from storage.errors import LogOffline, OffsetOutOfRange
from storage.log_config import LogConfig
from tests.support.data_broker import TOPIC_ID, DataBroker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DataBroker]:
    made = DataBroker(tmp_path)
    yield made
    made.close()


def batch() -> bytes:
    builder = BatchBuilder()
    builder.append(1, b"k", b"v")
    return builder.build()


def test_partitions_are_found_by_name_and_by_id(broker: DataBroker) -> None:
    broker.topic("t", 2)
    partitions = broker.partitions
    found = partitions.get("t", 1)

    assert found is not None
    assert (found.topic, found.topic_id, found.index, found.online) == ("t", TOPIC_ID, 1, True)
    assert str(found) == "t-1"
    assert partitions.get_by_id(TOPIC_ID, 1) is found
    assert (partitions.topic_name(TOPIC_ID), partitions.topic_id("t")) == ("t", TOPIC_ID)
    assert sorted(partitions.of_topic("t")) == [0, 1]
    assert len(partitions) == len(list(partitions)) == 2
    assert partitions.get("t", 2) is partitions.get("u", 0) is partitions.get_by_id(b"?" * 16, 0) is None
    assert partitions.topic_name(b"?" * 16) is partitions.topic_id("u") is None
    assert partitions.of_topic("u") == {}


def test_deleted_topic_wakes_its_waiters(broker: DataBroker, tmp_path: Path) -> None:
    partition = broker.topic()
    asked: list[bool] = []
    broker.purgatory.watch([partition], lambda: asked.append(partition.hosted) is None, None, lambda: None)
    broker.partitions.delete("t")
    broker.settle()

    assert asked == [False]
    assert broker.partitions.get("t", 0) is broker.partitions.topic_name(TOPIC_ID) is None
    assert not (tmp_path / "data0" / "t-0").exists()
    [kept] = (tmp_path / "data0").glob("t-0.*-delete")
    broker.clock.advance(60_000)
    broker.background.flush_due()
    assert not kept.exists()
    broker.partitions.delete("never")


def test_a_topic_can_be_created_again_under_its_name(broker: DataBroker) -> None:
    first = broker.topic()
    first.append(batch(), 0)
    broker.partitions.delete("t")
    second = broker.topic(topic_id=b"n" * 16)

    assert (second.topic_id, second.log_end_offset) == (b"n" * 16, 0)
    assert broker.partitions.get_by_id(TOPIC_ID, 0) is None


def test_all_logs_of_a_topic_get_its_configuration(broker: DataBroker) -> None:
    broker.topic("t", 2)
    broker.partitions.update_config("t", LogConfig(retention_ms=5))

    assert {partition.log.config.retention_ms for partition in broker.partitions} == {5}


def test_appends_have_the_leader_epoch_and_wake_waiters(broker: DataBroker) -> None:
    partition = broker.topic(leader_epoch=3)
    asked: list[int] = []
    broker.purgatory.watch([partition], lambda: asked.append(partition.high_watermark) is None, None, lambda: None)
    for _ in range(3):
        partition.append(batch(), 0)
    broker.settle()

    assert asked == [3]  # once, however many appends there were in the turn
    partition.lead(4)
    partition.append(batch(), 0)
    data = partition.log.read(0, 10_000, partition.high_watermark).read()
    size = len(batch())
    assert [parse_header(data, number * size).leader_epoch for number in range(4)] == [3, 3, 3, 4]
    assert (partition.log_start_offset, partition.log_end_offset, partition.last_stable_offset) == (0, 4, 4)


def test_leader_epochs_are_compared(broker: DataBroker) -> None:
    """KIP-320: an older epoch is fenced, a newer one is unknown here, a negative one is not compared."""
    partition = broker.topic(leader_epoch=3)

    assert [partition.check_leader_epoch(epoch) for epoch in (-1, -2, 3, 2, 4)] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    ]


def test_deleting_records_moves_the_start(broker: DataBroker) -> None:
    partition = broker.topic()
    for _ in range(4):
        partition.append(batch(), 0)

    assert partition.delete_records(2) == 2
    assert partition.delete_records(-1) == 4
    with pytest.raises(OffsetOutOfRange):
        partition.delete_records(5)


def test_min_insync_replicas_counts_at_most_the_replicas(broker: DataBroker) -> None:
    config = LogConfig(min_insync_replicas=3)
    alone = broker.topic("a", topic_id=b"a" * 16, config=config)
    pair = broker.topic("b", topic_id=b"b" * 16, config=config, replicas=[1, 2], isr=[1])
    both = broker.topic("c", topic_id=b"c" * 16, config=config, replicas=[1, 2], isr=[1, 2])

    assert [each.is_under_min_isr() for each in (alone, pair, both)] == [False, True, False]


def test_without_an_online_directory_a_partition_is_offline(broker: DataBroker) -> None:
    """The partition is known, and every request for it gets a storage error."""
    broker.logs.directories[0].fail("not mounted")
    partition = broker.topic()

    assert not partition.online
    assert broker.partitions.get_by_id(TOPIC_ID, 0) is partition
    for use in (lambda: partition.high_watermark, lambda: partition.append(batch(), 0), lambda: partition.lead(1)):
        with pytest.raises(LogOffline, match="not mounted"):
            use()
    broker.partitions.update_config("t", LogConfig(retention_ms=5))
    broker.partitions.delete("t")


def test_internal_topics_are_flagged(broker: DataBroker) -> None:
    assert broker.topic("__consumer_offsets").internal
    assert not broker.topic("t", topic_id=b"t" * 16).internal


def test_failed_directory_takes_its_partitions_offline(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Requests for them are rejected, waiting requests are woken, and one log line names the partitions."""
    broker = DataBroker(tmp_path, directories=2)
    broker.topic("t", 50)
    failing, other = broker.logs.directories
    partition = next(each for each in broker.partitions if each.log.directory is failing)
    asked: list[bool] = []
    broker.purgatory.watch([partition], lambda: asked.append(partition.online) is None, None, lambda: None)
    failing.fail("disk on fire")
    lost = broker.partitions.take_offline(failing)
    broker.settle()

    assert asked == [False]
    assert len(lost) == 25
    assert all(each.online is (each.find_log() is not None) for each in broker.partitions)
    for call in (lambda: partition.log_start_offset, lambda: partition.append(batch(), 0)):
        with pytest.raises(LogOffline, match="disk on fire"):
            call()
    assert caplog.text.count("Partitions are offline: ") == 1
    assert "and 5 more" in caplog.text
    assert broker.partitions.take_offline(failing) == []
    broker.partitions.lead(partition, 7)
    assert partition.leader_epoch == 7
    assert broker.partitions.take_offline(other)
    broker.partitions.log_offline()


def test_a_disk_that_fails_at_an_election_fails_alone(broker: DataBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log writes its first leader epoch. The failure takes the directory offline and affects nothing else."""
    partition = broker.topic()
    error = OSError(28, "No space left on device")
    directory = partition.log.directory
    partition.log.leader_epochs.clear()
    monkeypatch.setattr(directory.fs, "replace_file", lambda *_, **__: (_ for _ in ()).throw(error), raising=False)
    broker.partitions.lead(partition, 3)
    assert partition.leader_epoch == 3
    assert not directory.is_online


def test_partitions_of_other_workers_are_known_not_hosted(broker: DataBroker) -> None:
    """By name and by id, until the topic is deleted.

    A partition that is missing for another reason has its own error.
    """
    broker.topic("t", 1)
    partitions = broker.partitions
    partitions.note_remote("t", TOPIC_ID, 1)
    partitions.note_remote("u", b"u" * 16, 0)

    assert [partitions.is_elsewhere("t", index) for index in range(3)] == [False, True, False]
    assert partitions.get("t", 1) is partitions.get("u", 0) is partitions.get_by_id(b"u" * 16, 0) is None
    assert partitions.topic_name(b"u" * 16) == "u"
    assert len(partitions) == 1
    assert partitions.absence("t", 1) is partitions.absence("u", 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partitions.absence("t", 2) is partitions.absence("v", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert partitions.absence(None, 0) is ErrorCode.UNKNOWN_TOPIC_ID

    partitions.delete("u")
    assert partitions.absence("u", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert partitions.topic_name(b"u" * 16) is None
