"""Commits of groups that `pybroker mirror` copies: offset, metadata and leader epoch; nothing else is in a commit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from pybroker.testing import Broker
from tests.support.mirrors import LIMIT_S, delete_records, end, write
from tests.support.shell import Done, Shell

_LONGEST = 20


@pytest.fixture(scope="module")
def source() -> Iterator[Broker]:
    with Broker({"log.retention.ms": "-1"}) as running:
        yield running


@pytest.fixture(scope="module")
def target() -> Iterator[Broker]:
    with Broker({"log.retention.ms": "-1", "offset.metadata.max.bytes": _LONGEST}) as running:
        yield running


@pytest.fixture
def sh(target: Broker, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(target.bootstrap_servers, capsys)


def mirror(sh: Shell, source: Broker, topic: str) -> Done:
    return sh("mirror", "--source", source.bootstrap_servers, "--until-end", "--topic", topic, "--groups", topic)


def commit(broker: Broker, group: str, offset: int, metadata: str = "", epoch: int | None = None) -> None:
    """Commit an offset of partition 0 of the topic with the group's name."""
    parts = [
        TopicPartition(group, 0, offset, metadata, epoch)
        if epoch is not None
        else TopicPartition(group, 0, offset, metadata)
    ]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    (future,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, parts)]).values()
    assert future.result(LIMIT_S).topic_partitions[0].error is None


def committed(broker: Broker, group: str) -> tuple[int, str | None, int | None]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    (found,) = future.result(LIMIT_S).topic_partitions
    return found.offset, found.metadata, found.leader_epoch


def test_metadata_of_commits_is_copied(source: Broker, target: Broker, sh: Shell) -> None:
    """Kafka Streams, for example, keeps times of partitions there."""
    write(source, "noted", "a", "b", "c")
    commit(source, "noted", 2, "AgAAAX x é", 0)
    assert mirror(sh, source, "noted").code == 0
    assert committed(target, "noted") == (2, "AgAAAX x é", 0)
    commit(source, "noted", 2, "other")
    assert "group noted: 1 offsets" not in mirror(sh, source, "noted").out  # the copy's group may have written its own
    assert committed(target, "noted")[1] == "AgAAAX x é"


def test_metadata_is_added_to_a_commit_without(source: Broker, target: Broker, sh: Shell) -> None:
    """As an earlier version left it."""
    write(source, "bare", "a", "b", "c")
    assert mirror(sh, source, "bare").code == 0
    commit(source, "bare", 2, "note")
    commit(target, "bare", 2)
    assert mirror(sh, source, "bare").code == 0
    assert committed(target, "bare")[:2] == (2, "note")


def test_leader_epoch_is_one_of_the_target(source: Broker, target: Broker, sh: Shell) -> None:
    """A Java consumer that finds an epoch above the partition's ignores all metadata of the partition."""
    write(source, "elected", "a", "b", "c")
    commit(source, "elected", 2, "", 41)
    assert mirror(sh, source, "elected").code == 0
    assert committed(target, "elected") == (2, "", 0)
    consumer = Consumer({"bootstrap.servers": target.bootstrap_servers, "group.id": "elected"})
    try:
        consumer.subscribe(["elected"])
        message = consumer.poll(LIMIT_S)
        assert message is not None
        assert (message.error(), message.value()) == (None, b"c")
    finally:
        consumer.close()


def test_unknown_leader_epoch_stays_unknown(source: Broker, target: Broker, sh: Shell) -> None:
    write(source, "old-client", "a")
    commit(source, "old-client", 1)
    assert mirror(sh, source, "old-client").code == 0
    assert committed(target, "old-client")[2] in (None, -1)


def test_offset_is_copied_if_its_metadata_is_too_long(source: Broker, target: Broker, sh: Shell) -> None:
    """Without the metadata, which the target rejects (offset.metadata.max.bytes)."""
    write(source, "wordy", "a", "b")
    commit(source, "wordy", 1, "x" * (_LONGEST + 1))
    done = mirror(sh, source, "wordy")
    assert (done.code, done.out.count("group wordy: 1 offsets")) == (0, 1)
    offset, metadata, _ = committed(target, "wordy")
    assert (offset, metadata or "") == (1, "")


def test_group_that_cannot_be_read_does_not_end_the_mirror(source: Broker, target: Broker, sh: Shell) -> None:
    write(source, "unread", "a", "b")
    commit(source, "unread", 1)
    source.fail_next("OffsetFetch", "GROUP_AUTHORIZATION_FAILED")
    done = mirror(sh, source, "unread")
    assert done.code == 0
    assert "group unread: " in done.err
    assert mirror(sh, source, "unread").code == 0
    assert committed(target, "unread")[0] == 1


def test_group_of_an_emptied_partition_has_no_negative_lag(source: Broker, target: Broker, sh: Shell) -> None:
    """Its records are gone, and the copy ends where the source does."""
    write(source, "emptied", "a", "b", "c")
    commit(source, "emptied", 3)
    delete_records(source, "emptied", 3)
    assert mirror(sh, source, "emptied").code == 0
    assert (committed(target, "emptied")[0], end(target, "emptied")) == (3, 3)


def test_commits_go_on_after_a_restart_of_the_mirror(source: Broker, target: Broker, sh: Shell) -> None:
    """Forwards in small steps, before the group has reached the end once."""
    write(source, "stepwise", "a", "b", "c")
    for offset in (1, 2):
        commit(source, "stepwise", offset)
        assert mirror(sh, source, "stepwise").code == 0
        assert committed(target, "stepwise")[0] == offset


def test_group_in_use_at_the_target_keeps_its_offset(source: Broker, target: Broker, sh: Shell) -> None:
    """It is reported, also when the source's group goes on or back."""
    write(source, "in-use", "a", "b", "c")
    assert mirror(sh, source, "in-use").code == 0
    consumer = Consumer(
        {
            "bootstrap.servers": target.bootstrap_servers,
            "group.id": "in-use",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe(["in-use"])
        message = consumer.poll(LIMIT_S)
        assert message is not None
        assert message.error() is None
        consumer.commit(offsets=[TopicPartition("in-use", 0, 2)], asynchronous=False)
        for offset in (3, 1):
            commit(source, "in-use", offset)
            done = mirror(sh, source, "in-use")
            assert done.code == 0
            assert ("in-use" in done.err) == (offset == 3)
            assert committed(target, "in-use")[0] == 2
    finally:
        consumer.close()
