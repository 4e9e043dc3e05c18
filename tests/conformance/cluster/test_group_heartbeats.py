"""Heartbeats of a group whose coordinator's partition has records of other groups that are not committed."""

from __future__ import annotations

import os
import signal
import uuid
from itertools import count, islice

import pytest
from confluent_kafka.admin import NewTopic

from coordinator.partition_for_key import partition_for
from metadata.image import ResourceType
from metadata.topic_names import CONSUMER_OFFSETS
from protocol.error_codes import ErrorCode
from protocol.messages.find_coordinator import FIND_COORDINATOR
from protocol.messages.heartbeat import HEARTBEAT
from protocol.messages.offset_commit import OFFSET_COMMIT, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.conformance.classic_group import Group
from tests.conformance.cluster.mixed_cluster import (
    GROUP_PARTITIONS,
    OURS,
    PREFERRED,
    THEIRS,
    THIRD,
    MixedCluster,
)
from tests.support.brokers import HOST
from tests.support.eventually import eventually
from tests.support.wire import WireClient

pytestmark = pytest.mark.full_size  # it waits until a frozen follower leaves the ISR

#: Answers of an Apache Kafka coordinator after offsets.commit.timeout.ms.
_REFUSED = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
_LEAST = "min.insync.replicas"


def place_coordinator(cluster: MixedCluster, coordinator: int, follower: int) -> None:
    """Let these two have the first partition of the topic of groups, both of which its writes need."""
    with WireClient(HOST, cluster[THIRD].port) as client:
        client.call(FIND_COORDINATOR, 3, key="any")  # it creates the topic
    eventually(lambda: cluster.partition(CONSUMER_OFFSETS, coordinator) is not None)
    assert cluster.reassign(CONSUMER_OFFSETS, [coordinator, follower]) == 0
    both = [coordinator, follower], sorted((coordinator, follower))
    eventually(lambda: cluster.state(CONSUMER_OFFSETS, coordinator)[1:], equal_to=both)
    cluster.elect(CONSUMER_OFFSETS, PREFERRED)
    eventually(lambda: cluster.state(CONSUMER_OFFSETS, coordinator)[0], equal_to=coordinator)
    cluster.configure(ResourceType.TOPIC, CONSUMER_OFFSETS, {_LEAST: "2"})


@pytest.mark.parametrize("coordinator", [OURS, THEIRS])
def test_heartbeats_wait_for_no_other_group(cluster: MixedCluster, coordinator: int) -> None:
    """Apache Kafka schedules a heartbeat as a write without records (4.4), so it waits for all records before it.

    While a commit of any group of the partition is not replicated, its heartbeats fail, and clients look for another
    coordinator. A member answers them from memory.
    """
    follower = OURS + THEIRS - coordinator
    prefix = uuid.uuid4().hex
    names = (f"{prefix}-{number}" for number in count())
    stable, committing = islice((each for each in names if partition_for(each, GROUP_PARTITIONS) == 0), 2)
    place_coordinator(cluster, coordinator, follower)
    topic = NewTopic(f"topic-{stable}", 2, replica_assignment=[[coordinator]] * 2)  # `Group` looks for it there
    cluster.admin.create_topics([topic])[topic.topic].result(30)
    group = Group(cluster[coordinator], stable, topic.topic)
    member, other = group.connect(), group.connect()
    try:
        (member_id,) = group.stable(member)

        def beat() -> ErrorCode:
            fields = {"group_id": stable, "generation_id": group.generation, "member_id": member_id}
            return ErrorCode(member.call(HEARTBEAT, 4, fields).error_code)

        assert beat() is ErrorCode.NONE
        os.kill(cluster[follower].pid, signal.SIGSTOP)
        try:
            offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
            topics = [OffsetCommitRequestTopic(name=group.topic, partitions=[offset])]
            fields = {"group_id": committing, "generation_id_or_member_epoch": -1, "topics": topics}
            other.send(OFFSET_COMMIT, 8, fields)
            if cluster[coordinator].kind == "kafka":
                assert eventually(beat, until=lambda code: code is not ErrorCode.NONE) in _REFUSED
            else:
                eventually(lambda: cluster.state(CONSUMER_OFFSETS, coordinator)[2], equal_to=[coordinator])
                assert [beat() for _ in range(5)] == [ErrorCode.NONE] * 5
            assert other.receive().topics[0].partitions[0].error_code != ErrorCode.NONE
        finally:
            os.kill(cluster[follower].pid, signal.SIGCONT)
        eventually(beat, equal_to=ErrorCode.NONE)
    finally:
        cluster.configure(ResourceType.TOPIC, CONSUMER_OFFSETS, {_LEAST: None})
        group.close()
