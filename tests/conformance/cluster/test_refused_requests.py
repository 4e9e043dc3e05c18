"""Requests that a cluster refuses: a member answers as a broker of Apache Kafka does."""

from __future__ import annotations

import time
import uuid

from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import CREATE_PARTITIONS, CreatePartitionsAssignment, CreatePartitionsTopic
from protocol.messages.create_topics import CREATE_TOPICS, CreatableReplicaAssignment, CreatableTopic
from protocol.messages.produce import PRODUCE, PartitionProduceData, TopicProduceData
from protocol.schema import Struct
from tests.conformance.cluster.mixed_cluster import OURS, THEIRS, THIRD, MixedCluster
from tests.support.brokers import HOST
from tests.support.eventually import eventually
from tests.support.producing import batch
from tests.support.wire import WireClient

_NOBODY = 99


def created(cluster: MixedCluster, at: int, topic: Struct) -> tuple[int, str]:
    """Return the answer of a broker to a request for a topic: error code and message."""
    with WireClient(HOST, cluster[at].port) as client:
        (answer,) = client.call(CREATE_TOPICS, 7, topics=[topic]).topics
    return answer.error_code, answer.error_message


def test_more_replicas_than_brokers(cluster: MixedCluster) -> None:
    """With the message of Apache Kafka's controller, whichever broker is asked."""
    wanted = CreatableTopic(name=uuid.uuid4().hex, num_partitions=1, replication_factor=4)
    answers = [created(cluster, at, wanted) for at in (OURS, THEIRS)]
    assert answers[0] == answers[1]
    code, message = answers[0]
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert message == (
        "Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be reached because only"
        " 3 broker(s) are registered or some brokers have all their log directories cordoned."
    )
    assert cluster.partition(wanted.name) is None


def test_replicas_on_a_broker_that_is_not_registered(cluster: MixedCluster) -> None:
    """The controller refuses a new topic and a new partition alike."""
    placed = CreatableReplicaAssignment(partition_index=0, broker_ids=[OURS, _NOBODY])
    wanted = CreatableTopic(name=uuid.uuid4().hex, num_partitions=-1, replication_factor=-1, assignments=[placed])
    answers = [created(cluster, at, wanted) for at in (OURS, THEIRS)]
    assert answers[0] == answers[1]
    assert answers[0][0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    topic = cluster.create(OURS)
    more = CreatePartitionsTopic(name=topic, count=2, assignments=[CreatePartitionsAssignment(broker_ids=[_NOBODY])])
    found = []
    for at in (OURS, THEIRS):
        with WireClient(HOST, cluster[at].port) as client:
            (answer,) = client.call(CREATE_PARTITIONS, 3, topics=[more], timeout_ms=10_000).results
        found.append((answer.error_code, answer.error_message))
    assert found[0] == found[1]
    assert found[0][0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def produce(cluster: MixedCluster, at: int, topic: str, acks: int) -> tuple[int, int]:
    """Send one record to a leader; return error code and base offset."""
    records = batch(timestamp=round(time.time() * 1000))
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    with WireClient(HOST, cluster[at].port) as client:
        answer = client.call(PRODUCE, 9, acks=acks, timeout_ms=10_000, topic_data=[data])
    found = answer.responses[0].partition_responses[0]
    return found.error_code, found.base_offset


def test_fewer_in_sync_replicas_than_the_minimum(cluster: MixedCluster) -> None:
    """Both kinds of leaders refuse acks=all before they append, and take acks=1."""
    topics = {at: cluster.create(at, THIRD, config={"min.insync.replicas": "2"}) for at in (OURS, THEIRS)}
    for at, topic in topics.items():
        eventually(lambda at=at, topic=topic: produce(cluster, at, topic, -1), equal_to=(0, 0))  # type: ignore[misc]
    cluster[THIRD].stop()
    try:
        for at, topic in topics.items():
            eventually(lambda at=at, topic=topic: cluster.state(topic, at)[2], equal_to=[at])  # type: ignore[misc]
            before = cluster.logs(topic, at)
            assert produce(cluster, at, topic, -1) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
            assert cluster.logs(topic, at) == before
            assert produce(cluster, at, topic, 1) == (ErrorCode.NONE, 1)
    finally:
        cluster.start_all()
    for at, topic in topics.items():
        eventually(lambda at=at, topic=topic: cluster.state(topic, at)[2], equal_to=sorted([at, THIRD]))  # type: ignore[misc]
        assert produce(cluster, at, topic, -1) == (ErrorCode.NONE, 2)
