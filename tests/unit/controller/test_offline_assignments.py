"""Assignments to log directories that are offline: the leader moves."""

from __future__ import annotations

from metadata.image import ResourceType
from metadata.partition_registration import NO_LEADER
from protocol.messages.assign_replicas_to_dirs import (
    ASSIGN_REPLICAS_TO_DIRS,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from tests.unit.controller.small_cluster import TOPIC, SmallCluster, directory


def assign_offline(cluster: SmallCluster, broker_id: int) -> None:
    """Assign a broker's replica to a directory that it does not have."""
    topics = [RequestTopicData(topic_id=TOPIC, partitions=[RequestPartitionData(partition_index=0)])]
    request = ASSIGN_REPLICAS_TO_DIRS.request(
        broker_id=broker_id,
        broker_epoch=cluster.image.brokers[broker_id].broker_epoch,
        directories=[RequestDirectoryData(id=directory(broker_id, 7), topics=topics)],
    )
    cluster.controller.assign_replicas_to_dirs(request).result()


def test_replica_that_leaves_at_the_assignment_is_not_elected():
    """The assignment completes a reassignment. It moves the leader, which may only be a replica that stays."""
    log_dirs = [directory(1), directory(1, 2)]
    cluster = SmallCluster().with_brokers(1, log_dirs=log_dirs).with_brokers(2, 3).with_topic((3, 2))
    cluster.configure(ResourceType.TOPIC, "t", "unclean.leader.election.enable", "true")
    for broker_id in (2, 1, 3):
        cluster.heartbeat(broker_id, want_fence=True)
    cluster.controller.alter_reassignments([("t", 0, (2, 1))])
    cluster.heartbeat(1)
    cluster.heartbeat(3)
    assert cluster.partition().leader == 1
    assert cluster.partition().replicas == (2, 1, 3)
    assign_offline(cluster, 1)
    assert cluster.partition().replicas == (2, 1)
    assert cluster.partition().leader == NO_LEADER
