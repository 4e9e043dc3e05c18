"""How clients see partitions on a node with workers: each worker appears as a broker."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from broker.handlers.alter_partition_reassignments import alter_partition_reassignments
from broker.handlers.describe_topic_partitions import describe_topic_partitions
from broker.handlers.metadata import metadata
from broker.process.placement import worker_of
from metadata.create_topics import NewTopic
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    ReassignablePartition,
    ReassignableTopic,
)
from protocol.messages.describe_topic_partitions import DESCRIBE_TOPIC_PARTITIONS, TopicRequest
from protocol.messages.metadata import METADATA
from tests.support.controllers import ControllerHarness
from tests.support.offered import endpoints_of


def harness(**overrides: str) -> ControllerHarness:
    made = ControllerHarness({"num.workers": "3", "node.id": "1", **overrides})
    made.broker.ports = {"PLAINTEXT": (9092, 9093, 9094)}
    return made


def expected(topic: str, partitions: int) -> list[int]:
    return [1 + worker_of(topic, index, 3) for index in range(partitions)]


def test_leaders_and_replicas_are_workers() -> None:
    """In Metadata responses. The metadata log itself has only the node."""
    made = harness().with_topics(NewTopic("t", 6, 1), NewTopic("u", 1, 1))
    answer = made.ask(metadata, METADATA, 12, topics=None)
    for topic in answer.topics:
        wanted = expected(topic.name, len(topic.partitions))
        assert [each.leader_id for each in topic.partitions] == wanted
        assert [each.replica_nodes for each in topic.partitions] == [[each] for each in wanted]
        assert [each.isr_nodes for each in topic.partitions] == [[each] for each in wanted]
        assert [each.offline_replicas for each in topic.partitions] == [[]] * len(wanted)
    assert {each.leader for each in made.controller.image.topics_by_name["t"].partitions.values()} == {1}


def test_pages_of_partitions_are_the_same() -> None:
    """Wherever a page begins."""
    made = harness().with_topics(NewTopic("t", 6, 1))
    found, cursor = [], None
    while not found or cursor is not None:
        answer = made.ask(
            describe_topic_partitions,
            DESCRIBE_TOPIC_PARTITIONS,
            0,
            topics=[TopicRequest(name="t")],
            response_partition_limit=4,
            cursor=cursor,
        )
        found += [each.leader_id for topic in answer.topics for each in topic.partitions]
        cursor = answer.next_cursor
    assert found == expected("t", 6)


def test_a_partition_stays_with_its_worker() -> None:
    """Its replicas can be listed as clients see them. Those of another worker belong to no broker here."""
    made = harness().with_topics(NewTopic("t", 3, 1))
    for index, own in enumerate(expected("t", 3)):
        for replica in (1, 2, 3):
            partition = ReassignablePartition(partition_index=index, replicas=[replica])
            topics = [ReassignableTopic(name="t", partitions=[partition])]
            answer = made.ask(
                alter_partition_reassignments, ALTER_PARTITION_REASSIGNMENTS, 0, timeout_ms=1, topics=topics
            )
            [answered] = answer.responses[0].partitions
            wanted = ErrorCode.NONE if replica == own else ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert answered.error_code == wanted


@pytest.mark.parametrize(
    ("overrides", "addresses"),
    [
        ({"listeners": "PLAINTEXT://127.0.0.1:9092"}, [("127.0.0.1", 9092), ("127.0.0.1", 9093), ("127.0.0.1", 9094)]),
        ({"listeners": "PLAINTEXT://:0"}, [("192.0.2.7", 9092), ("192.0.2.7", 9093), ("192.0.2.7", 9094)]),
        (
            {"listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://example.org:100"},
            [("example.org", 100), ("example.org", 101), ("example.org", 102)],
        ),
    ],
)
def test_workers_are_brokers_on_the_ports_after_the_first(
    overrides: dict[str, str], addresses: list[tuple[str, int]]
) -> None:
    """The client may have connected to any worker."""
    made = harness(**overrides)
    connection = SimpleNamespace(listener_name="PLAINTEXT", local_host="192.0.2.7", local_port=9093)
    found = list(endpoints_of(made.broker).nodes(connection))  # type: ignore[arg-type]

    assert [each.node_id for each in found] == [1, 2, 3]
    assert [(each.host, each.port) for each in found] == addresses
