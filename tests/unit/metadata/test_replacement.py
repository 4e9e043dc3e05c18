"""An image is replaced by that of a snapshot, and the difference is what a replay would have reported."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from metadata.bulk_records import Changes
from metadata.delta import Delta
from metadata.framing import MetadataRecord, new_record
from metadata.image import MetadataImage, ResourceType
from metadata.registration import leave
from metadata.replacement import replace_image
from metadata.replay import replay_all
from metadata.replica_placement import new_partition
from protocol.messages.cluster_metadata import ConfigRecord, PartitionChangeRecord, RemoveTopicRecord, TopicRecord
from tests.support.images import cluster

ORDERS, PAYMENTS = b"orders-id-of-16b", b"payments-id-of-b"


def topic(image: MetadataImage, name: str, topic_id: bytes, partitions: int = 1) -> list[MetadataRecord]:
    records = [new_record(30, TopicRecord, name=name, topic_id=topic_id)]
    return records + [new_partition(image, topic_id, index, [1], manual=False) for index in range(partitions)]


def setting(name: str, value: str | None) -> MetadataRecord:
    resource = {"resource_type": ResourceType.TOPIC, "resource_name": "orders"}
    return new_record(30, ConfigRecord, **resource, name=name, value=value)


def differences(before: Sequence[Changes], after: Sequence[Changes]) -> tuple[Delta, Delta, MetadataImage]:
    """Return the replay's delta of `after`, the replacement's, and the image that was replaced."""
    image = cluster()
    replay_all(image, before)
    newer = deepcopy(image)
    replayed = replay_all(newer, after)
    replaced = replace_image(image, newer)
    assert image == newer
    return replayed, replaced, image


def test_new_topics_and_partitions_are_created() -> None:
    orders = topic(cluster(), "orders", ORDERS)
    more = [*topic(cluster(), "payments", PAYMENTS, 2), new_partition(cluster(), ORDERS, 1, [1], manual=False)]
    replayed, replaced, _ = differences(orders, more)
    keys = [sorted((each.topic_id, index) for each, index in d.created_partitions) for d in (replayed, replaced)]
    assert keys[0] == keys[1] == [(ORDERS, 1), (PAYMENTS, 0), (PAYMENTS, 1)]
    assert not replaced.deleted_topics


def test_partitions_that_stay_are_not_created_again() -> None:
    """Their logs stay open."""
    change = new_record(30, PartitionChangeRecord, topic_id=ORDERS, partition_id=1, leader=1)
    replayed, replaced, _ = differences(topic(cluster(), "orders", ORDERS, 2), [change])
    assert replaced.changed_partitions.keys() == replayed.changed_partitions.keys() == {(ORDERS, 1)}
    assert not replaced.created_partitions


def test_topic_that_was_created_again_is_deleted_and_created() -> None:
    again = [new_record(30, RemoveTopicRecord, topic_id=ORDERS), *topic(cluster(), "orders", PAYMENTS)]
    _, replaced, image = differences(topic(cluster(), "orders", ORDERS), again)
    assert [each.topic_id for each in replaced.deleted_topics] == [ORDERS]
    assert [(each.topic_id, index) for each, index in replaced.created_partitions] == [(PAYMENTS, 0)]
    assert image.topics_by_name["orders"].topic_id == PAYMENTS


def test_changed_configurations_are_named() -> None:
    before = [*topic(cluster(), "orders", ORDERS), setting("retention.ms", "1"), setting("segment.ms", "2")]
    _, replaced, _ = differences(before, [setting("retention.ms", None), setting("segment.ms", "3")])
    assert replaced.changed_configs == {(ResourceType.TOPIC, "orders")}
    assert not replaced.changed_acls
    assert not replaced.changed_quotas
    _, unchanged, _ = differences(before, [])
    assert unchanged == Delta()


def test_changed_registrations_are_named() -> None:
    """Connections to a broker depend on its address, and the ISR on its epoch."""
    fenced = leave(cluster(), 1)
    replayed, replaced, _ = differences([], fenced)
    assert replayed.changed_brokers == replaced.changed_brokers == {1}
    assert differences([], [])[1].changed_brokers == set()
