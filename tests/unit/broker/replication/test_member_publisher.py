"""A member takes over changes of the metadata that arrive together."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.membership.publisher import MemberPublisher
from broker.metadata_cache import MetadataCache
from broker.replication.replicas import Replicas
from config import load
from metadata.features import MAX_METADATA_VERSION
from metadata.framing import MetadataRecord, new_record
from metadata.image import ResourceType
from metadata.partition_registration import LOST_DIRECTORY, NO_LEADER, UNASSIGNED_DIRECTORY
from metadata.replay import replay_all
from protocol.messages.cluster_metadata import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from replication.follower_session import FollowerSession
from replication.isr_changes import Answer, Outcome
from replication.leading import Proposal
from replication.partition_key import PartitionKey
from storage.checkpoints import HIGH_WATERMARKS
from storage.log.offset_checkpoints import stored_high_watermarks
from storage.log_config import LogConfig
from tests.support.data_broker import DataBroker
from tests.support.images import DIRECTORY, cluster
from tests.support.producing import batch

OLD, NEW, OTHER = b"old-topic-16byte", b"new-topic-16byte", b"otr-topic-16byte"
OURS, THEIRS = 1, 2
SECOND = b"directory-id-two"


class Fetchers:
    """Which partitions are fetched, and from whom."""

    def __init__(self) -> None:
        self.leaders: dict[PartitionKey, int] = {}

    def follow(self, key: PartitionKey, log: object, leader: int, leader_epoch: int) -> None:
        self.leaders[key] = leader

    def stop(self, key: PartitionKey) -> None:
        self.leaders.pop(key, None)


class Member:
    """Broker 1 of two, with its replicas in two log directories below `directory`."""

    def __init__(self, directory: Path) -> None:
        self.data = data = DataBroker(directory, directories=2)
        self.image = cluster(2, log_directories=(DIRECTORY, SECOND))
        self.fetchers = Fetchers()
        fetchers, nothing, nobody = (
            self.fetchers,
            lambda *_: None,
            SimpleNamespace(broker_epoch=lambda broker_id: broker_id),
        )
        self.replicas = Replicas(
            OURS,
            data.logs,
            data.partitions,
            fetchers,  # type: ignore[arg-type]
            nobody,
            data.clock,
            data.timers,
            wake=nothing,
            propose=nothing,
            max_lag_ms=30_000,
        )
        #: The reports to the controller: topic id, partition, directory id.
        self.placed: list[tuple[bytes, int, bytes]] = []
        placements: Any = SimpleNamespace(record_placements=self.placed.extend)
        config = load(None, overrides={"node.id": "1", "log.dirs": str(directory)})
        cache = MetadataCache("cluster", self.image)
        ids = dict(zip((each.path for each in data.logs.directories), (DIRECTORY, SECOND), strict=True))
        self.publisher = MemberPublisher(config, cache, data.partitions, placements, ids, nothing)
        self.publisher.replication = SimpleNamespace(replicas=self.replicas)  # type: ignore[assignment]

    def publish(self, *records: MetadataRecord) -> None:
        """Apply records that arrive together."""
        delta = replay_all(self.image, records)
        delta.changed_brokers.clear()
        self.publisher.publish(delta)

    def log_ids(self) -> dict[tuple[str, int], bytes | None]:
        return {key: each.topic_id for key, each in self.data.logs.logs.items()}


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    made = Member(tmp_path)
    yield made
    made.data.close()


def created(
    topic_id: bytes,
    leader: int,
    name: str = "t",
    *,
    directory: bytes = DIRECTORY,
    replicas: tuple[int, ...] = (OURS, THEIRS),
) -> list[MetadataRecord]:
    return [
        new_record(MAX_METADATA_VERSION, TopicRecord, name=name, topic_id=topic_id),
        new_record(
            MAX_METADATA_VERSION,
            PartitionRecord,
            partition_id=0,
            topic_id=topic_id,
            replicas=list(replicas),
            isr=list(replicas),
            leader=leader,
            leader_epoch=0,
            partition_epoch=0,
            directories=[directory, DIRECTORY][: len(replicas)],
        ),
    ]


def leader_changed(topic_id: bytes, leader: int) -> MetadataRecord:
    return new_record(MAX_METADATA_VERSION, PartitionChangeRecord, partition_id=0, topic_id=topic_id, leader=leader)


def deleted(topic_id: bytes) -> MetadataRecord:
    return new_record(MAX_METADATA_VERSION, RemoveTopicRecord, topic_id=topic_id)


@pytest.mark.parametrize("before", [OURS, THEIRS])
@pytest.mark.parametrize("after", [OURS, THEIRS])
def test_a_topic_deleted_and_created_again_at_once_has_a_log_of_its_own(
    member: Member, before: int, after: int
) -> None:
    """A member that was frozen hears of both together."""
    member.publish(*created(OLD, before))
    member.data.logs.logs["t", 0].append(batch(3), 0, member.data.clock.now_ms())
    member.publish(deleted(OLD), *created(NEW, after))
    assert member.log_ids() == {("t", 0): NEW}
    assert member.data.logs.logs["t", 0].log_end_offset == 0
    assert member.fetchers.leaders == ({} if after == OURS else {(NEW, 0): THEIRS})
    assert list(member.replicas.led) == ([(NEW, 0)] if after == OURS else [])
    assert list(member.replicas.followed) == ([] if after == OURS else [(NEW, 0)])


@pytest.mark.parametrize("before", [OURS, THEIRS])
@pytest.mark.parametrize("after", [OURS, THEIRS])
def test_a_topic_whose_leader_changes_before_its_deletion_leaves_nothing(
    member: Member, before: int, after: int
) -> None:
    member.publish(*created(OLD, before))
    member.publish(leader_changed(OLD, after), deleted(OLD))
    assert member.log_ids() == {}
    assert member.fetchers.leaders == {}
    assert not member.replicas.led
    assert not member.replicas.followed
    assert member.data.partitions.topic_id("t") is None


def test_moved_leadership_is_one_line(member: Member, caplog: pytest.LogCaptureFixture) -> None:
    """A new partition has not moved. A line names only the first partitions."""
    caplog.set_level(logging.INFO, "broker.replication.leadership_moves")
    ids = [number.to_bytes(16, "big") for number in range(1, 15)]
    for number, topic_id in enumerate(ids):
        member.publish(*created(topic_id, THEIRS if number else OURS, f"t{number}"))
    assert caplog.messages == []
    member.publish(leader_changed(ids[0], THEIRS), *(leader_changed(each, OURS) for each in ids[1:]))
    named = ", ".join(f"t{number}-0" for number in range(1, 11))
    assert caplog.messages == [f"Leadership moved: to this broker 13 ({named} and 3 more); from it 1 (t0-0)"]
    caplog.clear()
    member.publish(leader_changed(ids[1], OURS))
    assert caplog.messages == []
    member.publish(leader_changed(ids[1], NO_LEADER))
    assert caplog.messages == ["Leadership moved: to this broker 0; from it 1 (t1-0)"]


def test_a_new_topic_does_not_get_the_high_watermark_of_a_deleted_one(member: Member) -> None:
    """A start after a crash would take uncommitted records of the new topic for committed ones."""
    member.publish(*created(OLD, OURS), *created(OTHER, OURS, "u"))
    log = member.data.logs.logs["t", 0]
    log.append(batch(3), 0, member.data.clock.now_ms())
    log.advance_high_watermark(3)
    member.data.background.checkpoint(HIGH_WATERMARKS)
    directories = member.data.logs.directories
    assert stored_high_watermarks(directories)["t", 0] == 3
    member.publish(deleted(OLD))
    member.publish(*created(NEW, OURS))
    assert stored_high_watermarks(directories).get(("t", 0), 0) == 0


def test_a_follower_in_a_failed_directory_fetches_nothing(member: Member) -> None:
    """A fetch at the log end would tell the leader that the replica is in sync, also in a later epoch."""
    member.publish(*created(OLD, THEIRS))
    followed = member.replicas.followed[OLD, 0]
    directory = followed.open_log.directory  # type: ignore[union-attr]
    directory.fail("unplugged")
    member.replicas.take_offline(directory)
    assert member.fetchers.leaders == {}
    member.publish(leader_changed(OLD, THEIRS))
    assert member.fetchers.leaders == {}
    assert not followed.online


def test_a_leader_in_a_failed_directory_takes_over_what_is_said_of_its_partition(member: Member) -> None:
    """Until another broker leads. Answers to its proposals are in one response with those of other partitions."""
    member.publish(*created(OLD, OURS))
    led = member.replicas.led[OLD, 0]
    directory = led.log.directory
    directory.fail("unplugged")
    member.data.partitions.take_offline(directory)
    setting = {"resource_type": ResourceType.TOPIC, "resource_name": "t", "name": "retention.ms", "value": "1000"}
    member.publish(new_record(MAX_METADATA_VERSION, ConfigRecord, **setting))
    assert led.log_config.retention_ms == 1000
    proposal = Proposal(isr=((OURS, -1),), leader_epoch=0, partition_epoch=0)
    for outcome in Outcome:
        member.replicas.take_answer(Answer((OLD, 0), proposal, outcome, 0, (OURS,), 0, 1))
    assert not led.online


def test_retention_lets_followers_know_the_log_start(member: Member) -> None:
    member.publish(*created(OLD, OURS))
    led = member.replicas.led[OLD, 0]
    led.log.config = LogConfig(retention_bytes=0, segment_bytes=100)
    for _ in range(2):
        led.append(batch(1), member.data.clock.now_ms())
    led.follower_fetched(THEIRS, THEIRS, 2, 0)
    session = FollowerSession(["key"], lambda _: None)
    follower = led.leader.followers[THEIRS]
    follower.read_by(session, "key")
    session.rest("key", follower)
    member.data.background.retain()
    assert led.log_start_offset > 0
    assert list(session.due) == ["key"]


def fail_second_directory(member: Member) -> None:
    """The second directory does not work when the broker starts."""
    directory = member.data.logs.directories[1]
    directory.fail("unplugged")
    assert member.publisher.directory_failed(directory.path)


@pytest.mark.parametrize("leader", [OURS, THEIRS, NO_LEADER])
def test_a_replica_in_a_failed_directory_is_not_made_again(member: Member, leader: int) -> None:
    """The replica may be eligible to lead. A new, empty log in another directory would be elected in its place."""
    fail_second_directory(member)
    replay_all(member.image, created(OLD, THEIRS, directory=SECOND))
    member.publisher.host_all()
    assert member.log_ids() == {}
    member.publish(leader_changed(OLD, leader))
    assert member.log_ids() == {}
    assert member.fetchers.leaders == {}
    assert not member.replicas.led


def test_a_reassigned_replica_needs_no_failed_directory(member: Member) -> None:
    """Another directory fails that has nothing of a replica which is new on this broker."""
    fail_second_directory(member)
    replay_all(member.image, created(OLD, THEIRS, replicas=(THEIRS, 3)))
    member.publisher.host_all()
    member.publish(
        new_record(
            MAX_METADATA_VERSION,
            PartitionChangeRecord,
            partition_id=0,
            topic_id=OLD,
            replicas=[OURS, THEIRS, 3],
            adding_replicas=[OURS],
            directories=[UNASSIGNED_DIRECTORY, DIRECTORY, DIRECTORY],
        )
    )
    assert member.log_ids() == {("t", 0): OLD}
    assert member.fetchers.leaders == {(OLD, 0): THEIRS}


def test_the_controller_learns_that_a_replica_is_in_a_failed_directory(member: Member) -> None:
    """The replica was to move when the broker stopped; the controller has it in the directory that works."""
    member.publish(*created(OLD, THEIRS))
    (first, _) = member.data.logs.directories
    assert member.data.logs.logs["t", 0].directory is first
    first.fail("unplugged")
    assert member.publisher.directory_failed(first.path)
    member.publish(
        new_record(
            MAX_METADATA_VERSION,
            PartitionChangeRecord,
            partition_id=0,
            topic_id=OLD,
            leader=OURS,
            directories=[SECOND, DIRECTORY],
        )
    )
    assert not member.replicas.led
    assert member.placed == [(OLD, 0, DIRECTORY)]


def test_a_single_replica_of_a_move_is_lost_with_its_old_directory(member: Member) -> None:
    """The metadata has it in the directory that works, where it has no log. A second replica does not change that."""
    fail_second_directory(member)
    replay_all(member.image, created(OLD, OURS, replicas=(OURS,)))
    member.publisher.host_all()
    assert member.log_ids() == {}
    assert member.placed == [(OLD, 0, LOST_DIRECTORY)]
    change = {"replicas": [OURS, THEIRS], "adding_replicas": [THEIRS], "directories": [DIRECTORY, DIRECTORY]}
    member.publish(new_record(MAX_METADATA_VERSION, PartitionChangeRecord, partition_id=0, topic_id=OLD, **change))
    assert member.log_ids() == {}
    assert not member.replicas.led


def test_a_new_single_replica_needs_no_failed_directory(member: Member) -> None:
    fail_second_directory(member)
    member.publish(*created(OLD, OURS, replicas=(OURS,), directory=SECOND))
    assert member.log_ids() == {("t", 0): OLD}
    assert member.placed == [(OLD, 0, DIRECTORY)]


@pytest.mark.parametrize(("leader", "isr"), [(NO_LEADER, OURS), (OURS, OURS), (THEIRS, THEIRS), (THEIRS, OURS)])
def test_a_replica_in_a_missing_directory_is_copied_from_its_leader(member: Member, leader: int, isr: int) -> None:
    """Without another leader, the last one in sync would lead with an empty log: it stays offline."""
    member.data.partitions._missing = {(OLD, 0): "its log directory is missing"}
    records = created(OLD, leader, directory=b"missing-dir-16-b")
    records[1].value.isr = [isr]
    replay_all(member.image, records)
    member.publisher.host_all()
    assert member.log_ids() == ({("t", 0): OLD} if leader == THEIRS else {})
    assert member.placed == ([(OLD, 0, DIRECTORY)] if leader == THEIRS else [])
    member.publish(leader_changed(OLD, THEIRS))
    assert member.log_ids() == {("t", 0): OLD}
    assert member.fetchers.leaders == {(OLD, 0): THEIRS}


def test_an_unfinished_copy_is_reported_as_lost(member: Member) -> None:
    """The controller has the replica in the directory of the copy."""
    member.data.partitions._missing = {(OLD, 0): "its log directory is missing"}
    replay_all(member.image, created(OLD, OURS))
    member.publisher.host_all()
    assert member.log_ids() == {}
    assert member.placed == [(OLD, 0, LOST_DIRECTORY)]
