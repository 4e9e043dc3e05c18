"""The index of partitions by broker follows each change."""

from __future__ import annotations

from random import Random
from typing import Any

from controller.replica_index import ReplicaIndex
from metadata.framing import new_record
from metadata.partition_registration import NO_LEADER
from metadata.replay import replay_all
from protocol.messages.cluster_metadata import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from tests.unit.controller.small_cluster import SmallCluster

SEED = 631
BROKERS = range(1, 6)


def topic_id(number: int) -> bytes:
    return bytes(15) + bytes((number,))


def answers(index: ReplicaIndex) -> list[Any]:
    """Return all that an index says."""
    found: list[Any] = [sorted(index.leaderless), sorted(index.unbalanced)]
    for broker_id in BROKERS:
        located = [index.in_sync_on(broker_id), index.eligible_on(broker_id)]
        found.append([sorted((topic.name, number) for topic, number, _ in each) for each in located])
        found.append(index.leads(broker_id))
    return found


def test_index_equals_one_that_is_built_from_the_image():
    random = Random(SEED)
    image = SmallCluster().image
    index = ReplicaIndex(image)
    for _ in range(300):
        number = random.randrange(4)
        replicas = random.sample(BROKERS, random.randint(1, 3))
        leader = random.choice([NO_LEADER, *replicas])
        elr = random.sample(replicas, random.randrange(2))
        fields = {"topic_id": topic_id(number), "replicas": replicas, "isr": replicas[:2], "leader": leader}
        fields |= {"eligible_leader_replicas": elr}
        topic = image.topics_by_id.get(topic_id(number))
        if topic is None:
            created = new_record(30, TopicRecord, name=str(number), topic_id=topic_id(number))
            records = [created, *(new_record(30, PartitionRecord, partition_id=each, **fields) for each in range(3))]
        elif random.random() < 0.1:
            records = [
                new_record(30, PartitionChangeRecord, partition_id=0, **fields),
                new_record(30, RemoveTopicRecord, topic_id=topic_id(number)),
            ]
        else:
            records = [new_record(30, PartitionChangeRecord, partition_id=random.randrange(3), **fields)]
        index.publish(replay_all(image, records))
        assert answers(index) == answers(ReplicaIndex(image))


def test_heartbeats_and_fences_look_at_no_other_partitions():
    """Their cost does not grow with the cluster."""

    class Unlisted(dict[str, Any]):
        def __iter__(self) -> Any:
            raise AssertionError("all topics were listed")

        values = items = keys = __iter__

    cluster = SmallCluster().with_brokers(1, 2, 3).with_topic((1, 2))
    cluster.image.topics_by_name = Unlisted(cluster.image.topics_by_name)
    cluster.heartbeat(1)
    cluster.heartbeat(1, want_fence=True)
    cluster.heartbeat(1)
    assert cluster.partition().leader == 2
