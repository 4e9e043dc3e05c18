"""Replaying records into an image, from a real cluster and single ones."""

from __future__ import annotations

import pytest

from metadata.delta import Delta
from metadata.framing import MetadataRecord, UnknownRecord, new_record
from metadata.image import MetadataImage, ResourceType
from metadata.loading import MetadataLoader
from metadata.replay import ReplayError, replay, replay_all
from protocol.messages.cluster_metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from protocol.messages.cluster_metadata.configs import EntityData
from tests.support.metadata_log import CLEAN_SHUTDOWN, stored_records

MV = 30
TOPIC_ID = b"topic-id-of-16-b"


def record(message, **fields) -> MetadataRecord:
    return new_record(MV, message, **fields)


def an_orders_topic() -> list[MetadataRecord]:
    partition = {
        "topic_id": TOPIC_ID,
        "replicas": [1],
        "isr": [1],
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
    }
    return [
        record(TopicRecord, name="orders", topic_id=TOPIC_ID),
        record(PartitionRecord, partition_id=0, **partition),
        record(PartitionRecord, partition_id=1, **partition),
    ]


@pytest.fixture
def image() -> MetadataImage:
    return MetadataImage()


def test_recorded_log_replays_to_the_cluster():
    """The recorded cluster: 22 topics, all stopped cleanly, so that no broker leads and broker 1 is eligible."""
    loader = MetadataLoader()
    for each in stored_records(CLEAN_SHUTDOWN / "__cluster_metadata-0" / "00000000000000000000.log"):
        loader.feed(each)
    image = loader.image

    assert image.metadata_version == 30
    assert image.features["transaction.version"] == 2
    assert 22 == len(image.topics_by_name) == len(image.topics_by_id)
    assert image.config(ResourceType.BROKER, "") == {"min.insync.replicas": "1"}
    assert image.topic_config("plain") == {"index.interval.bytes": "100", "internal.segment.bytes": "2000"}
    assert image.next_producer_id == 1000
    assert image.brokers[1].broker_epoch == 12
    assert image.brokers[1].fenced
    assert image.brokers[1].in_controlled_shutdown
    assert not loader.in_transaction
    for topic in image.topics_by_name.values():
        for partition in topic.partitions.values():
            assert (partition.leader, partition.leader_epoch, partition.isr) == (-1, 1, ())
            assert partition.eligible_leader_replicas == (1,)


def test_delta_has_the_changes(image: MetadataImage):
    """Partitions to create, topics to delete and configurations to apply."""
    delta = replay_all(image, [*an_orders_topic(), config("retention.ms", "1000")])
    topic = image.topics_by_name["orders"]

    assert [(topic, 0), (topic, 1)] == delta.created_partitions
    assert {(ResourceType.TOPIC, "orders")} == delta.changed_configs
    assert [topic] == replay_all(image, [record(RemoveTopicRecord, topic_id=TOPIC_ID)]).deleted_topics


def config(name: str, value: str | None) -> MetadataRecord:
    return record(ConfigRecord, resource_type=2, resource_name="orders", name=name, value=value)


def test_deleted_topic_leaves_nothing(image: MetadataImage):
    """A later topic of the same name has its own id, and not the old configuration."""
    replay_all(
        image, [*an_orders_topic(), config("retention.ms", "1000"), record(RemoveTopicRecord, topic_id=TOPIC_ID)]
    )

    assert MetadataImage() == image


def test_null_removes_a_setting(image: MetadataImage):
    """The last one removes the resource."""
    replay_all(image, [config("a", "1"), config("b", "2"), config("a", None)])
    assert image.topic_config("orders") == {"b": "2"}

    replay_all(image, [config("b", None)])
    assert image.configs == {}


@pytest.mark.parametrize(("leader", "epoch"), [(None, 0), (1, 1), (-1, 1)])
def test_any_leader_begins_a_leader_epoch(image: MetadataImage, leader: int | None, epoch: int):
    """Including the same one; without a leader only the partition epoch is bumped."""
    replay_all(image, an_orders_topic())
    fields = {} if leader is None else {"leader": leader}
    delta = replay_all(image, [record(PartitionChangeRecord, partition_id=1, topic_id=TOPIC_ID, isr=[], **fields)])
    partition = image.topics_by_name["orders"].partitions[1]

    assert (1 if leader is None else leader) == partition.leader
    assert (epoch, 1, ()) == (partition.leader_epoch, partition.partition_epoch, partition.isr)
    assert list(delta.changed_partitions) == [(TOPIC_ID, 1)]


def test_clear_elr_changes_partitions_that_have_some(image: MetadataImage):
    """It clears those of one topic or, without a name, of all. Leaders need the new epoch to change their ISR."""
    change = {"topic_id": TOPIC_ID, "eligible_leader_replicas": [1], "last_known_elr": [1]}
    replay_all(image, [*an_orders_topic(), record(PartitionChangeRecord, partition_id=0, **change)])
    delta = replay_all(image, [record(ClearElrRecord, topic_name="")])
    partition, other = (image.topics_by_name["orders"].partitions[index] for index in (0, 1))

    assert (partition.eligible_leader_replicas, partition.last_known_elr, partition.partition_epoch) == ((), (), 2)
    assert other.partition_epoch == 0
    assert list(delta.changed_partitions) == [(TOPIC_ID, 0)]


def test_broker_registration_fencing_and_removal(image: MetadataImage):
    """All kinds of fencing, and unregistering."""
    replay_all(image, [record(RegisterBrokerRecord, broker_id=1, broker_epoch=5, log_dirs=[TOPIC_ID])])
    assert image.brokers[1].fenced

    replay_all(image, [record(BrokerRegistrationChangeRecord, broker_id=1, broker_epoch=5, fenced=-1)])
    assert image.brokers[1].is_active
    assert image.brokers[1].log_directories == (TOPIC_ID,)

    replay_all(image, [record(BrokerRegistrationChangeRecord, broker_id=1, broker_epoch=5, in_controlled_shutdown=1)])
    assert not image.brokers[1].is_active

    replay_all(image, [record(FenceBrokerRecord, id=1, epoch=5), record(UnfenceBrokerRecord, id=1, epoch=5)])
    assert not image.brokers[1].fenced

    replay_all(image, [record(UnregisterBrokerRecord, broker_id=1, broker_epoch=5)])
    assert image.brokers == {}


@pytest.mark.parametrize(
    "bad",
    [
        record(PartitionRecord, partition_id=0, topic_id=TOPIC_ID),
        record(PartitionChangeRecord, partition_id=0, topic_id=TOPIC_ID),
        record(RemoveTopicRecord, topic_id=TOPIC_ID),
        record(UnregisterBrokerRecord, broker_id=9, broker_epoch=1),
        record(ClearElrRecord, topic_name="orders"),
    ],
    ids=lambda bad: bad.message.name,
)
def test_record_that_contradicts_the_log_is_an_error(image: MetadataImage, bad: MetadataRecord):
    """A damaged log must not be loaded as if it were valid."""
    with pytest.raises(ReplayError):
        replay(image, bad, Delta())


def test_existing_topic_is_an_error(image: MetadataImage):
    """By name or by id."""
    replay_all(image, an_orders_topic())
    with pytest.raises(ReplayError):
        replay(image, record(TopicRecord, name="orders", topic_id=bytes(16)), Delta())


def test_registration_change_at_another_epoch_is_an_error(image: MetadataImage):
    """It belongs to another incarnation."""
    replay_all(image, [record(RegisterBrokerRecord, broker_id=1, broker_epoch=5)])
    with pytest.raises(ReplayError):
        replay(image, record(BrokerRegistrationChangeRecord, broker_id=1, broker_epoch=4, fenced=-1), Delta())


def test_features_quotas_and_producer_ids(image: MetadataImage):
    """Level 0 turns a feature off; a removed quota leaves no empty entity."""
    entity = [EntityData(entity_type="user", entity_name="u"), EntityData(entity_type="client-id", entity_name=None)]
    quota = {"entity": entity, "key": "producer_byte_rate"}
    replay_all(
        image,
        [
            record(FeatureLevelRecord, name="group.version", feature_level=1),
            record(ProducerIdsRecord, broker_id=1, broker_epoch=1, next_producer_id=2000),
            record(ClientQuotaRecord, value=5.0, **quota),
        ],
    )
    assert image.features == {"group.version": 1}
    assert image.next_producer_id == 2000
    assert image.client_quotas == {(("client-id", None), ("user", "u")): {"producer_byte_rate": 5.0}}

    replay_all(
        image,
        [
            record(FeatureLevelRecord, name="group.version", feature_level=0),
            record(ClientQuotaRecord, remove=True, **quota),
        ],
    )
    assert (image.features, image.client_quotas) == ({}, {})


def test_unknown_records_are_kept(image: MetadataImage):
    """So that our snapshots do not lose records of a later release."""
    replay(image, UnknownRecord(200, 0, b"x"), Delta())

    assert [UnknownRecord(200, 0, b"x")] == image.unknown_records


def test_transaction_counts_once_it_has_ended():
    """KIP-868: nothing of it is visible before, or if it is aborted."""
    loader = MetadataLoader()
    loader.feed(record(BeginTransactionRecord, name="x"))
    for each in an_orders_topic():
        loader.feed(each)
    assert loader.in_transaction
    assert loader.image.topics_by_name == {}

    loader.feed(record(EndTransactionRecord))
    assert not loader.in_transaction
    assert list(loader.image.topics_by_name) == ["orders"]


def test_aborted_transaction_is_dropped():
    """A transaction that was open at a crash is dropped once the next leader has aborted it."""
    loader = MetadataLoader()
    for each in [record(BeginTransactionRecord), *an_orders_topic(), record(AbortTransactionRecord, reason="crash")]:
        loader.feed(each)

    assert MetadataImage() == loader.image


@pytest.mark.parametrize("message", [EndTransactionRecord, AbortTransactionRecord])
def test_end_without_a_beginning_is_an_error(message):
    """Transactions need a beginning, and do not nest."""
    with pytest.raises(ReplayError):
        MetadataLoader().feed(record(message))
    loader = MetadataLoader()
    loader.feed(record(BeginTransactionRecord))
    with pytest.raises(ReplayError):
        loader.feed(record(BeginTransactionRecord))
