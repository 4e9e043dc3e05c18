"""CreateTopics, DeleteTopics, CreatePartitions, ElectLeaders, reassignments, DescribeCluster and InitProducerId, at
all versions.

The tests of `metadata` cover the decisions. These cover requests and responses.
"""

from __future__ import annotations

import pytest

from broker.handlers.alter_partition_reassignments import alter_partition_reassignments
from broker.handlers.create_partitions import create_partitions
from broker.handlers.create_topics import create_topics
from broker.handlers.delete_topics import delete_topics
from broker.handlers.describe_cluster import describe_cluster
from broker.handlers.elect_leaders import elect_leaders
from broker.handlers.init_producer_id import init_producer_id
from broker.handlers.list_partition_reassignments import list_partition_reassignments
from metadata.create_topics import NewTopic
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.create_partitions import (
    CREATE_PARTITIONS,
    CreatePartitionsAssignment,
    CreatePartitionsTopic,
)
from protocol.messages.create_topics import (
    CREATE_TOPICS,
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from protocol.messages.delete_topics import DELETE_TOPICS, DeleteTopicState
from protocol.messages.describe_cluster import DESCRIBE_CLUSTER
from protocol.messages.elect_leaders import ELECT_LEADERS, TopicPartitions
from protocol.messages.init_producer_id import INIT_PRODUCER_ID
from protocol.messages.list_partition_reassignments import (
    LIST_PARTITION_REASSIGNMENTS,
    ListPartitionReassignmentsTopics,
)
from tests.support.controllers import CLUSTER_ID, ControllerHarness


@pytest.fixture
def harness() -> ControllerHarness:
    return ControllerHarness().with_topics(NewTopic("orders", 2, 1))


def topic_id(harness: ControllerHarness, name: str = "orders") -> bytes:
    return harness.controller.image.topics_by_name[name].topic_id


@pytest.mark.parametrize("version", range(8))
def test_create_topics(harness: ControllerHarness, version: int):
    """v5 added partition counts and configuration, v7 the id. A rejected topic has a message."""
    answer = harness.ask(
        create_topics,
        CREATE_TOPICS,
        version,
        topics=[
            CreatableTopic(
                name="audit",
                num_partitions=3,
                replication_factor=1,
                configs=[CreatableTopicConfig(name="retention.ms", value="5")],
            ),
            CreatableTopic(
                name="manual",
                num_partitions=-1,
                replication_factor=-1,
                assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])],
            ),
            CreatableTopic(name="orders", num_partitions=1, replication_factor=1),
        ],
    )
    audit, manual, orders = answer.topics

    assert [t.error_code for t in answer.topics] == [0, 0, ErrorCode.TOPIC_ALREADY_EXISTS]
    if version >= 1:
        assert (audit.error_message, orders.error_message) == (None, "Topic 'orders' already exists.")
    assert harness.controller.image.topic_config("audit") == {"retention.ms": "5"}
    if version >= 5:
        assert (audit.num_partitions, audit.replication_factor) == (3, 1)
        assert (manual.num_partitions, orders.num_partitions) == (1, -1)
        assert {c.name: (c.value, c.config_source) for c in audit.configs}["retention.ms"] == ("5", 1)
        assert {c.name: (c.value, c.config_source) for c in manual.configs}["retention.ms"] == ("604800000", 5)
        assert [c.name for c in audit.configs] == sorted(c.name for c in audit.configs)
        assert orders.configs == []
    if version >= 7:
        assert audit.topic_id == topic_id(harness, "audit")


def test_create_topics_only_validated(harness: ControllerHarness):
    """The response is that of a creation. No topic is created."""
    answer = harness.ask(
        create_topics,
        CREATE_TOPICS,
        7,
        topics=[CreatableTopic(name="audit", num_partitions=-1, replication_factor=-1)],
        validate_only=True,
    )

    assert [(t.error_code, t.num_partitions) for t in answer.topics] == [(0, 1)]
    assert "audit" not in harness.controller.image.topics_by_name


def test_a_bad_config_is_reported_in_kafkas_words(harness: ControllerHarness):
    """kafka-topics prints the message."""
    topic = CreatableTopic(
        name="t",
        num_partitions=1,
        replication_factor=1,
        configs=[CreatableTopicConfig(name="no.such", value="1")],
    )
    (result,) = harness.ask(create_topics, CREATE_TOPICS, 7, topics=[topic]).topics

    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert result.error_message == "Unknown topic config name: no.such"


@pytest.mark.parametrize("version", range(7))
def test_delete_topics(harness: ControllerHarness, version: int):
    """By name, which v6 encodes in another form. Messages came with v5."""
    if version < 6:
        fields = {"topic_names": ["orders", "nope"]}
    else:
        fields = {"topics": [DeleteTopicState(name=name) for name in ("orders", "nope")]}
    answer = harness.ask(delete_topics, DELETE_TOPICS, version, timeout_ms=1000, **fields)
    results = {r.name: r for r in answer.responses}

    assert results["orders"].error_code == 0
    assert results["nope"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if version >= 5:
        assert results["nope"].error_message == "This server does not host this topic-partition."
    assert harness.controller.image.topics_by_name == {}


def test_delete_topics_by_id(harness: ControllerHarness):
    """The response has the topic's name."""
    wanted = topic_id(harness)
    (result,) = harness.ask(
        delete_topics, DELETE_TOPICS, 6, topics=[DeleteTopicState(name=None, topic_id=wanted)], timeout_ms=1000
    ).responses

    assert (result.error_code, result.name, result.topic_id) == (0, "orders", wanted)


@pytest.mark.parametrize(("version", "code"), [(2, "INVALID_REQUEST"), (3, "TOPIC_DELETION_DISABLED")])
def test_deletion_disabled(version: int, code: str):
    """delete.topic.enable=false: v3 added an error code for it."""
    harness = ControllerHarness({"delete.topic.enable": "false"}).with_topics(NewTopic("orders"))
    (result,) = harness.ask(delete_topics, DELETE_TOPICS, version, topic_names=["orders"], timeout_ms=1).responses

    assert ErrorCode(result.error_code).name == code
    assert "orders" in harness.controller.image.topics_by_name


@pytest.mark.parametrize("version", range(4))
def test_create_partitions(harness: ControllerHarness, version: int):
    """The broker or the client chooses the replicas."""
    answer = harness.ask(
        create_partitions,
        CREATE_PARTITIONS,
        version,
        topics=[
            CreatePartitionsTopic(name="orders", count=3, assignments=[CreatePartitionsAssignment(broker_ids=[1])]),
            CreatePartitionsTopic(name="nope", count=3, assignments=None),
        ],
        timeout_ms=1000,
    )

    assert [(r.name, r.error_code) for r in answer.results] == [("orders", 0), ("nope", 3)]
    assert len(harness.controller.image.topics_by_name["orders"].partitions) == 3


@pytest.mark.parametrize("version", range(3))
def test_elect_leaders(harness: ControllerHarness, version: int):
    """No leader needs an election. A request for all topics returns only their names."""
    some = harness.ask(
        elect_leaders, ELECT_LEADERS, version, topic_partitions=[TopicPartitions(topic="orders", partitions=[0])]
    )
    everything = harness.ask(elect_leaders, ELECT_LEADERS, version, topic_partitions=None)
    (result,) = some.replica_election_results[0].partition_result

    assert (result.partition_id, result.error_code) == (0, ErrorCode.ELECTION_NOT_NEEDED)
    assert [(r.topic, r.partition_result) for r in everything.replica_election_results] == [("orders", [])]


def test_unknown_kind_of_election(harness: ControllerHarness):
    """The whole request is rejected, with the error in each partition."""
    answer = harness.ask(
        elect_leaders,
        ELECT_LEADERS,
        2,
        election_type=5,
        topic_partitions=[TopicPartitions(topic="orders", partitions=[0])],
    )
    (result,) = answer.replica_election_results[0].partition_result

    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, "Unknown election type 5")


@pytest.mark.parametrize("version", range(2))
def test_alter_reassignments(harness: ControllerHarness, version: int):
    """A reassignment to the current replicas is accepted."""
    answer = harness.ask(
        alter_partition_reassignments,
        ALTER_PARTITION_REASSIGNMENTS,
        version,
        topics=[
            ReassignableTopic(name="orders", partitions=[ReassignablePartition(partition_index=0, replicas=[1])]),
            ReassignableTopic(name="nope", partitions=[ReassignablePartition(partition_index=0, replicas=[1])]),
        ],
    )

    assert answer.error_code == 0
    assert [(r.name, r.partitions[0].error_code) for r in answer.responses] == [("orders", 0), ("nope", 3)]


@pytest.mark.parametrize("names", [None, ["orders", "nope"], []])
def test_no_reassignments(harness: ControllerHarness, names: list[str] | None):
    """One broker never has any."""
    topics = (
        None
        if names is None
        else [ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 9]) for name in names]
    )
    answer = harness.ask(list_partition_reassignments, LIST_PARTITION_REASSIGNMENTS, 0, topics=topics)

    assert (answer.error_code, answer.error_message, answer.topics) == (0, None, [])


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster(harness: ControllerHarness, version: int):
    """Returns the brokers, and the authorized operations on the cluster if requested."""
    plain = harness.ask(describe_cluster, DESCRIBE_CLUSTER, version)
    asked = harness.ask(describe_cluster, DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=True)

    assert (plain.error_code, plain.cluster_id, plain.controller_id) == (0, CLUSTER_ID, 1)
    assert [(b.broker_id, b.host, b.port, b.rack) for b in plain.brokers] == [(1, "127.0.0.1", 9092, None)]
    assert (plain.cluster_authorized_operations, asked.cluster_authorized_operations) == (-(2**31), 8096)


@pytest.mark.parametrize(("kind", "code"), [(2, "MISMATCHED_ENDPOINT_TYPE"), (3, "UNSUPPORTED_ENDPOINT_TYPE")])
def test_describe_cluster_of_controllers(harness: ControllerHarness, kind: int, code: str):
    """The listener belongs to a broker, so the request is rejected."""
    answer = harness.ask(describe_cluster, DESCRIBE_CLUSTER, 2, endpoint_type=kind)

    assert ErrorCode(answer.error_code).name == code
    assert (answer.brokers, answer.cluster_id, answer.controller_id) == ([], "", -1)


def test_describe_cluster_with_fenced_brokers():
    """Only if requested (KIP-1073). Other brokers appear by their listener of the same name, if they have one."""
    harness = ControllerHarness(brokers=2)
    from msgspec.structs import replace

    from metadata.image import Endpoint

    brokers = harness.controller.image.brokers
    brokers[2] = replace(brokers[2], fenced=True, endpoints=(Endpoint("PLAINTEXT", "other", 9093, 0),))
    few = harness.ask(describe_cluster, DESCRIBE_CLUSTER, 2)
    more = harness.ask(describe_cluster, DESCRIBE_CLUSTER, 2, include_fenced_brokers=True)

    assert [b.broker_id for b in few.brokers] == [1]
    assert [(b.broker_id, b.is_fenced) for b in more.brokers] == [(1, False), (2, True)]


@pytest.mark.parametrize("version", range(6))
def test_init_producer_id(harness: ControllerHarness, version: int):
    """Each request gets a new id with epoch 0. The broker allocates ids in blocks."""
    answers = [
        harness.ask(init_producer_id, INIT_PRODUCER_ID, version, transactional_id=None, transaction_timeout_ms=1)
        for _ in range(2)
    ]

    assert [(a.error_code, a.producer_id, a.producer_epoch) for a in answers] == [(0, 0, 0), (0, 1, 0)]
    assert harness.controller.image.next_producer_id == 1000


def test_init_producer_id_with_a_known_id(harness: ControllerHarness):
    """Without a transactional id the producer still gets a new id (KIP-360)."""
    answer = harness.ask(init_producer_id, INIT_PRODUCER_ID, 5, transactional_id=None, producer_id=77, producer_epoch=3)

    assert (answer.producer_id, answer.producer_epoch) == (0, 0)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"producer_id": 5}, "INVALID_REQUEST"),
        ({"producer_epoch": 0}, "INVALID_REQUEST"),
        ({"transactional_id": ""}, "INVALID_REQUEST"),
    ],
)
def test_init_producer_id_rejected(harness: ControllerHarness, fields: dict, code: str):
    """The request has half of an id and epoch, or an empty transactional id."""
    answer = harness.ask(init_producer_id, INIT_PRODUCER_ID, 5, **{"transactional_id": None, **fields})

    assert ErrorCode(answer.error_code).name == code
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
