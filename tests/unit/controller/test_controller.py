"""The controller with a log in memory: what it appends, publishes and answers, and when."""

from __future__ import annotations

import pytest

from broker.metadata_publisher import HOSTED_PER_TURN
from metadata.configs import alter_config
from metadata.create_partitions import MorePartitions
from metadata.create_topics import NewTopic
from metadata.decision import TooManyRecords
from metadata.delete_topics import TopicReference
from metadata.framing import new_record
from metadata.image import ResourceType
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import ConfigRecord
from runtime.ids import random_id
from storage.errors import LogOffline
from tests.support.controllers import ControllerHarness


@pytest.fixture
def harness() -> ControllerHarness:
    return ControllerHarness()


def fail(harness: ControllerHarness, path: str) -> None:
    """Let a log directory fail."""
    assert harness.publisher.directory_failed(path)
    harness.controller.keep_online_directories(harness.publisher.online_directories())


def test_topic_is_one_batch_and_is_published(harness: ControllerHarness):
    """All or nothing, with the topic's configuration in force."""
    harness.with_topics(NewTopic("orders", 2, 1, configs={"retention.ms": "5"}))
    (batch,) = harness.log.batches

    assert len(batch) == 4
    assert list(harness.partitions.hosted) == [("orders", 0), ("orders", 1)]
    assert harness.partitions.hosted["orders", 0].config.retention_ms == 5
    assert harness.partitions.hosted["orders", 0].topic_id == harness.controller.image.topics_by_name["orders"].topic_id


def test_result_waits_for_the_sync(harness: ControllerHarness):
    """The change is visible at once. Requests during a sync share the next one."""
    harness.sync.automatic = False
    first = harness.controller.create_topics([NewTopic("a")])
    second = harness.controller.create_topics([NewTopic("b")])
    third = harness.controller.create_topics([NewTopic("c")])
    assert set(harness.controller.image.topics_by_name) == {"a", "b", "c"}
    assert len(harness.sync.running) == 1
    assert not first.done

    harness.sync.running[0].resolve(None)
    assert first.done
    assert not second.done
    assert len(harness.sync.running) == 2

    harness.sync.running[1].resolve(None)
    assert second.done
    assert third.done
    assert len(harness.sync.running) == 2


def test_validation_writes_nothing(harness: ControllerHarness):
    """Neither topics nor partitions."""
    harness.with_topics(NewTopic("a"))
    controller = harness.controller
    (topic,) = controller.create_topics([NewTopic("b")], validate_only=True).result()
    (partitions,) = controller.create_partitions([MorePartitions("a", 3)], validate_only=True).result()

    assert (topic.error_code, partitions.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
    assert len(harness.log.batches) == 1
    assert list(harness.partitions.hosted) == [("a", 0)]


def test_request_with_too_many_records_changes_nothing(harness: ControllerHarness):
    """One request is one batch of at most 10,000 records. The broker's own changes have no limit."""
    controller, end = harness.controller, harness.controller.last_offset
    topics = [NewTopic(f"t{number}", 1, 1) for number in range(5_001)]  # a record each, and one of the partition
    with pytest.raises(TooManyRecords, match="Unable to perform excessively large batch operation"):
        controller.create_topics(topics).result()
    with pytest.raises(TooManyRecords):
        controller.create_topics(topics, validate_only=True)
    assert (controller.last_offset, controller.image.topic("t0")) == (end, None)
    records = [new_record(30, ConfigRecord, resource_type=2, resource_name="a", name="b", value="c")] * 10_001
    controller.submit(records[1:])
    controller.submit(records, of_request=False)
    assert controller.last_offset == end + 20_001


def test_failed_append_changes_nothing(harness: ControllerHarness):
    """With a full disk the caller gets the storage's error. Once there is space again, it works."""
    harness.log.failure = LogOffline("/logs", "no space left")
    with pytest.raises(LogOffline):
        harness.controller.create_topics([NewTopic("a")]).result()
    assert harness.controller.image.topics_by_name == {}
    assert harness.partitions.hosted == {}

    harness.log.failure = None
    harness.with_topics(NewTopic("a"))


def test_failed_sync_ends_all_changes(harness: ControllerHarness):
    """The state of the disk is unknown: waiting and later requests fail, and nothing is appended."""
    harness.sync.automatic = False
    waiting = harness.controller.create_topics([NewTopic("a")])
    later = harness.controller.create_topics([NewTopic("b")])
    harness.sync.running[0].fail(LogOffline("/logs", "it failed"))
    harness.sync.running[1].fail(LogOffline("/logs", "it failed"))

    for deferred in (waiting, later, harness.controller.create_topics([NewTopic("c")])):
        with pytest.raises(LogOffline):
            deferred.result()
    assert len(harness.log.batches) == 2


def test_many_partitions_are_hosted_over_several_turns():
    """The loop serves others in between. The result waits for the last partition; deleted ones are left out."""
    turns: list = []
    harness = ControllerHarness(call_soon=turns.append)
    many = harness.controller.create_topics([NewTopic("many", 2 * HOSTED_PER_TURN, 1)])
    few = harness.controller.create_topics([NewTopic("few"), NewTopic("gone")])
    assert len(harness.partitions.hosted) == HOSTED_PER_TURN
    ensured = harness.topics.ensure("many")
    assert (harness.topics.partition_count("many"), ensured.done) == (0, False)
    harness.controller.delete_topics([TopicReference("gone")])
    turns.pop()()
    assert not many.done
    turns.pop()()

    assert turns == []
    assert len(harness.partitions.hosted) == 2 * HOSTED_PER_TURN + 1
    assert many.done
    assert few.done
    assert (harness.topics.partition_count("many"), ensured.result()) == (2 * HOSTED_PER_TURN, True)


def test_nothing_is_hosted_while_the_logs_are_closed():
    """A thread closes them, and the directory is marked as clean: the next start hosts what is left."""
    turns: list = []
    harness = ControllerHarness(call_soon=turns.append)
    harness.controller.create_topics([NewTopic("many", 2 * HOSTED_PER_TURN, 1)])
    harness.publisher.close()
    while turns:
        turns.pop()()
    assert len(harness.partitions.hosted) == HOSTED_PER_TURN


def test_failing_partition_blocks_no_other(monkeypatch: pytest.MonkeyPatch):
    """The other partitions and later topics are published."""
    turns: list = []
    harness = ControllerHarness(call_soon=turns.append)
    create = harness.partitions.create

    def fail_or_create(topic: str, topic_id: bytes, index: int, *rest, **more):
        if (topic, index) == ("many", HOSTED_PER_TURN):
            raise ValueError("not this one")
        return create(topic, topic_id, index, *rest, **more)

    monkeypatch.setattr(harness.partitions, "create", fail_or_create)
    many = harness.controller.create_topics([NewTopic("many", HOSTED_PER_TURN + 2, 1)])
    ensured = harness.topics.ensure("many")
    turns.pop()()

    assert many.done
    assert ensured.result()
    assert sorted(index for _, index in harness.partitions.hosted) == [*range(HOSTED_PER_TURN), HOSTED_PER_TURN + 1]
    assert harness.controller.create_topics([NewTopic("next", 1, 1)]).done
    assert ("next", 0) in harness.partitions.hosted


def test_start_hosts_the_partitions_of_the_metadata():
    """All partitions, with their topics' configuration; missing logs in online directories may be created again."""
    before = ControllerHarness().with_topics(NewTopic("orders", 2, 1, configs={"retention.ms": "5"}))
    harness = ControllerHarness(image=before.controller.image)
    harness.publisher.host_all()

    assert list(harness.partitions.hosted) == [("orders", 0), ("orders", 1)]
    assert harness.partitions.hosted["orders", 1].config.retention_ms == 5
    assert harness.log.batches == []


def test_directory_of_a_new_partition_is_recorded():
    """With several directories the storage chooses one, and the metadata records it (KIP-858)."""
    first, second = b"directory-1-of-2", b"directory-2-of-2"
    harness = ControllerHarness(directories={"/elsewhere": first, "/logs": second})
    harness.with_topics(NewTopic("orders", 2, 1))
    partitions = harness.controller.image.topics_by_name["orders"].partitions

    assert [partition.directories for partition in partitions.values()] == [(second,), (second,)]
    assert [partition.leader_epoch for partition in partitions.values()] == [0, 0]
    assert len(harness.log.batches) == 2


def test_failed_directory_loses_its_partitions():
    """They have no leader any more; partitions in other directories are not affected."""
    first, second = b"directory-1-of-2", b"directory-2-of-2"
    harness = ControllerHarness(directories={"/elsewhere": first, "/logs": second}).with_topics(NewTopic("orders"))
    fail(harness, "/elsewhere")
    image = harness.controller.image
    assert image.topics_by_name["orders"].partitions[0].leader == 1

    fail(harness, "/logs")
    partition = image.topics_by_name["orders"].partitions[0]
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (-1, (), (1,))


def test_declared_topics_are_created_and_not_changed():
    """`pybroker.topics`: missing topics are created, existing ones stay."""
    harness = ControllerHarness({"pybroker.topics": "orders:3;audit:1:cleanup.policy=compact,delete"})
    harness.with_topics(NewTopic("orders", 1, 1))
    harness.controller.create_declared_topics().result()
    image = harness.controller.image
    assert len(image.topics_by_name["orders"].partitions) == 1
    assert image.topic_config("audit") == {"cleanup.policy": "compact,delete"}

    harness.controller.create_declared_topics().result()
    assert len(harness.log.batches) == 2


def test_declared_topics_with_many_partitions_are_awaited():
    """They are published over several turns, which may take longer than the sync."""
    turns: list = []
    declared = {"pybroker.topics": f"many:{HOSTED_PER_TURN + 1}"}
    harness = ControllerHarness(declared, call_soon=turns.append)
    made = harness.controller.create_declared_topics()
    assert not made.done
    turns.pop()()

    assert [each.name for each in made.result()] == ["many"]


def test_new_partitions_are_logged(harness: ControllerHarness, caplog: pytest.LogCaptureFixture):
    """One line per topic."""
    caplog.set_level("INFO", "controller.controller")
    harness.with_topics(NewTopic("one", 1, 1), NewTopic("many", 3, 1))
    assert caplog.messages == ["Topic one has 1 new partition", "Topic many has 3 new partitions"]


def test_deleted_topic_is_hosted_no_more(harness: ControllerHarness):
    """Subscribers are called; the name may be used again, with another id."""
    harness.with_topics(NewTopic("orders"))
    calls: list[str] = []
    harness.metadata.on_topic_deleted(lambda topic: calls.append(topic.name))
    old_id = harness.controller.image.topics_by_name["orders"].topic_id
    harness.controller.delete_topics([TopicReference("orders")]).result()
    assert harness.partitions.hosted == {}
    assert calls == ["orders"]

    harness.with_topics(NewTopic("orders"))
    assert harness.controller.image.topics_by_name["orders"].topic_id != old_id


def test_added_partitions_are_hosted(harness: ControllerHarness):
    """With the topic's configuration."""
    harness.with_topics(NewTopic("orders", configs={"retention.ms": "5"}))
    harness.controller.create_partitions([MorePartitions("orders", 2)]).result()

    assert harness.partitions.hosted["orders", 1].config.retention_ms == 5


def test_config_changes_are_in_force_at_once(harness: ControllerHarness):
    """For topics, and for brokers as defaults of topics."""
    harness.with_topics(NewTopic("orders"), NewTopic("audit"))
    controller, hosted = harness.controller, harness.partitions.hosted
    controller.alter_config(ResourceType.TOPIC, "orders", {"retention.ms": "7"}).result()
    assert (hosted["orders", 0].config.retention_ms, hosted["audit", 0].config.retention_ms) == (7, 604_800_000)

    controller.alter_config(ResourceType.BROKER, "", {"log.retention.ms": "9"}).result()
    assert (hosted["orders", 0].config.retention_ms, hosted["audit", 0].config.retention_ms) == (7, 9)

    controller.alter_config(ResourceType.TOPIC, "orders", {"retention.ms": None}).result()
    assert hosted["orders", 0].config.retention_ms == 9


def test_unchanged_config_writes_nothing(harness: ControllerHarness):
    """Setting the value that is already set."""
    harness.with_topics(NewTopic("orders", configs={"retention.ms": "5"}))

    assert alter_config(harness.controller.image, ResourceType.TOPIC, "orders", {"retention.ms": "5"}) == []


def test_new_leader_epoch_reaches_the_partition(harness: ControllerHarness):
    """Later records have it."""
    from metadata.framing import new_record
    from protocol.messages.cluster_metadata import PartitionChangeRecord

    harness.with_topics(NewTopic("orders"))
    topic_id = harness.controller.image.topics_by_name["orders"].topic_id
    change = new_record(30, PartitionChangeRecord, topic_id=topic_id, partition_id=0, leader=1)
    harness.controller.submit([change]).result()

    assert harness.partitions.hosted["orders", 0].leader_epoch == 1


INTERNAL = {
    "__consumer_offsets": (
        50,
        {"compression.type": "producer", "cleanup.policy": "compact", "segment.bytes": "104857600"},
    ),
    "__transaction_state": (
        50,
        {
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": "1",
            "segment.bytes": "104857600",
            "unclean.leader.election.enable": "false",
        },
    ),
    "__share_group_state": (
        50,
        {
            "compression.type": "producer",
            "cleanup.policy": "delete",
            "min.insync.replicas": "1",
            "segment.bytes": "104857600",
            "retention.ms": "-1",
        },
    ),
}


@pytest.mark.parametrize("name", INTERNAL)
def test_internal_topics_are_created_as_in_kafka(harness: ControllerHarness, name: str):
    """By their own keys. The default factors of 3 and 2 become 1, because there is one broker."""
    assert harness.topics.ensure(name).result()
    assert harness.topics.ensure(name).result()
    image = harness.controller.image

    assert len(image.topics_by_name[name].partitions) == INTERNAL[name][0]
    assert image.topic_config(name) == INTERNAL[name][1]
    assert len(harness.log.batches) == 1


def test_explicit_internal_replication_factor_counts():
    """It fails, as in Kafka, if there are too few brokers."""
    harness = ControllerHarness({"offsets.topic.replication.factor": "3"})

    assert not harness.topics.ensure("__consumer_offsets").result()
    assert harness.controller.image.topics_by_name == {}


def test_automatic_topics_have_the_defaults():
    """num.partitions of the broker (S2.5)."""
    harness = ControllerHarness({"num.partitions": "3"})
    harness.controller.auto_create(["orders"])

    assert len(harness.controller.image.topics_by_name["orders"].partitions) == 3


def test_ids_never_begin_with_a_hyphen():
    """Commands would read such an id as an option. Ids are version 4 UUIDs."""
    import base64

    for _ in range(500):
        text = base64.urlsafe_b64encode(random_id()).decode()
        assert not text.startswith("-")
    assert random_id()[6] >> 4 == 4
