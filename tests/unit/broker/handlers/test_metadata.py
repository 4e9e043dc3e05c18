"""Metadata: the responses that Apache Kafka 4.3.1 gave to the same requests, at all versions."""

from __future__ import annotations

import pytest

from broker.handlers.metadata import CREATION_MS, metadata
from metadata.create_topics import NewTopic
from metadata.registration import leave
from metadata.replay import replay_all
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.schema import Struct
from tests.support.controllers import CLUSTER_ID, ControllerHarness

ALL = range(14)
OTHER_ID = b"1" * 16


@pytest.fixture
def harness() -> ControllerHarness:
    return ControllerHarness().with_topics(NewTopic("orders", 2, 1), NewTopic("__consumer_offsets"))


def ask(harness: ControllerHarness, version: int, names: list[str | None] | None, **fields) -> Struct:
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    return harness.ask(metadata, METADATA, version, topics=topics, **fields)


def by_id(harness: ControllerHarness, version: int, *ids: bytes, name: str | None = None) -> Struct:
    topics = [MetadataRequestTopic(name=name, topic_id=topic_id) for topic_id in ids]
    return harness.ask(metadata, METADATA, version, topics=topics)


@pytest.mark.parametrize("version", ALL)
def test_topic_with_its_partitions(harness: ControllerHarness, version: int):
    """Leader, replicas and, where the version has them, epochs and ids (S1.2, S1.7, S2.7)."""
    answer = ask(harness, version, ["orders"])
    (broker,) = answer.brokers
    (topic,) = answer.topics

    assert (broker.node_id, broker.host, broker.port) == (1, "127.0.0.1", 9092)
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "orders", False)
    assert [p.partition_index for p in topic.partitions] == [0, 1]
    assert [(p.leader_id, p.replica_nodes, p.isr_nodes) for p in topic.partitions] == [(1, [1], [1])] * 2
    assert [p.offline_replicas for p in topic.partitions] == [[]] * 2
    if version >= 1:
        assert answer.controller_id == 1
    if version >= 2:
        assert answer.cluster_id == CLUSTER_ID
    if version >= 7:
        assert [p.leader_epoch for p in topic.partitions] == [0, 0]
    if version >= 10:
        assert topic.topic_id == harness.controller.image.topics_by_name["orders"].topic_id
    assert topic.topic_authorized_operations == -(2**31)


@pytest.mark.parametrize("version", ALL)
def test_all_topics_and_none(harness: ControllerHarness, version: int):
    """An empty list requests all topics in v0. From v1 on null does."""
    everything = ask(harness, version, [] if version == 0 else None)

    assert {topic.name: topic.is_internal for topic in everything.topics} == {
        "orders": False,
        "__consumer_offsets": version > 0,
    }
    if version > 0:
        assert ask(harness, version, []).topics == []


@pytest.mark.parametrize("version", ALL)
def test_an_unknown_topic_is_created_by_the_request(harness: ControllerHarness, version: int):
    """The response is UNKNOWN_TOPIC_OR_PARTITION, also to an immediate second request. Soon the topic exists (S2.6)."""
    fields = {"allow_auto_topic_creation": True} if version >= 4 else {}
    for _ in range(2):
        answer = ask(harness, version, ["new"], **fields)
        assert [topic.error_code for topic in answer.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    harness.advance(CREATION_MS)
    answer = ask(harness, version, ["new"], **fields)

    assert [(topic.error_code, len(topic.partitions)) for topic in answer.topics] == [(0, 1)]


@pytest.mark.parametrize("forbidden_by", ["client", "broker"])
def test_unknown_topics_are_not_created_if_forbidden(forbidden_by: str):
    """The request may forbid it from v4 on, and auto.create.topics.enable for all requests."""
    harness = ControllerHarness({"auto.create.topics.enable": "false"} if forbidden_by == "broker" else {})
    for _ in range(2):
        answer = ask(harness, 4, ["new"], allow_auto_topic_creation=forbidden_by == "broker")
        assert [topic.error_code for topic in answer.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert harness.log.batches == []


def test_an_invalid_name(harness: ControllerHarness):
    """Such a topic is never created."""
    answer = ask(harness, 12, ["bad name", ""])

    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_TOPIC_EXCEPTION] * 2
    assert len(harness.log.batches) == 1


def test_a_repeated_name_is_answered_once(harness: ControllerHarness):
    """The names are a set."""
    assert len(ask(harness, 12, ["orders", "orders"]).topics) == 1


@pytest.mark.parametrize("version", [12, 13])
def test_topics_by_id(harness: ControllerHarness, version: int):
    """KIP-516: a name beside an id is ignored."""
    topic_id = harness.controller.image.topics_by_name["orders"].topic_id
    known, unknown = by_id(harness, version, topic_id, OTHER_ID, OTHER_ID).topics

    assert (known.error_code, known.name) == (0, "orders")
    assert (unknown.error_code, unknown.name, unknown.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, OTHER_ID)
    (both,) = by_id(harness, version, OTHER_ID, name="orders").topics
    assert (both.error_code, both.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
    (beside_nothing,) = by_id(harness, version, bytes(16), OTHER_ID).topics
    assert (beside_nothing.error_code, beside_nothing.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, OTHER_ID)


@pytest.mark.parametrize(("version", "topic_id"), [(10, OTHER_ID), (11, bytes(16)), (12, bytes(16))])
def test_ids_and_nulls_are_rejected_before_v12(harness: ControllerHarness, version: int, topic_id: bytes):
    """v10 and v11 have ids in their requests, but the broker rejects them."""
    answer = by_id(harness, version, topic_id)

    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST]
    assert answer.brokers == []


def test_authorized_operations_when_asked(harness: ControllerHarness):
    """Without an authorizer that is every operation, also for missing topics (KIP-430)."""
    fields = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}
    answer = ask(harness, 8, ["orders", "bad name"], **fields)

    assert answer.cluster_authorized_operations == 8096
    assert [topic.topic_authorized_operations for topic in answer.topics] == [3576, 3576]


def test_an_unknown_id_has_no_authorized_operations(harness: ControllerHarness):
    """Permissions need a name."""
    topics = [MetadataRequestTopic(name=None, topic_id=bytes(15) + b"\x01")]
    fields = {"topics": topics, "include_topic_authorized_operations": True}
    (topic,) = harness.ask(metadata, METADATA, 12, **fields).topics
    assert (topic.error_code, topic.topic_authorized_operations) == (ErrorCode.UNKNOWN_TOPIC_ID, -(2**31))


def test_partition_without_a_leader(harness: ControllerHarness):
    """Its only replica is on a fenced broker, so the replica is offline too."""
    replay_all(harness.controller.image, leave(harness.controller.image, 1))
    (topic,) = ask(harness, 12, ["orders"]).topics

    assert [p.error_code for p in topic.partitions] == [ErrorCode.LEADER_NOT_AVAILABLE] * 2
    assert [(p.leader_id, p.isr_nodes, p.offline_replicas) for p in topic.partitions] == [(-1, [], [1])] * 2


def test_without_a_host_clients_get_the_address_they_used():
    """Nothing is advertised, and the listener has no host."""
    harness = ControllerHarness({"listeners": "PLAINTEXT://:0"})
    (broker,) = ask(harness, 12, []).brokers

    assert (broker.host, broker.port) == ("192.0.2.7", 19092)


def test_clients_get_the_advertised_listener():
    """The response has the rack too."""
    harness = ControllerHarness({"advertised.listeners": "PLAINTEXT://example.org:29092", "broker.rack": "r1"})
    (broker,) = ask(harness, 12, []).brokers

    assert (broker.host, broker.port, broker.rack) == ("example.org", 29092, "r1")
