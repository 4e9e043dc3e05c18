"""Decisions about new topics. Codes and messages are those of Apache Kafka 4.3.1 for the same requests."""

from __future__ import annotations

from collections import Counter

import pytest

from metadata.create_topics import NewTopic
from metadata.image import MetadataImage
from metadata.partition_registration import UNASSIGNED_DIRECTORY
from metadata.registration import cordon_directories
from metadata.replay import replay_all
from protocol.error_codes import ErrorCode
from tests.support.images import DIRECTORY, cluster, decide_topics, with_topics


@pytest.fixture
def image() -> MetadataImage:
    return cluster()


def test_topic_is_one_batch_of_topic_configs_partitions(image: MetadataImage):
    """In this order, so that a reader never sees a partition without its topic's configuration."""
    decision = decide_topics(image, NewTopic("orders", 2, 1, configs={"retention.ms": "1"}))
    (result,) = decision.results

    assert [record.message.name for record in decision.records] == [
        "TopicRecord",
        "ConfigRecord",
        "PartitionRecord",
        "PartitionRecord",
    ]
    assert (result.error_code, result.num_partitions, result.replication_factor) == (ErrorCode.NONE, 2, 1)
    assert result.configs == {"retention.ms": "1"}
    assert image.topics_by_name == {}


def test_partition_has_replica_leader_and_directory(image: MetadataImage):
    """The broker's only log directory."""
    partition = with_topics(image, NewTopic("orders")).topics_by_name["orders"].partitions[0]

    assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    assert partition.directories == (DIRECTORY,)


def test_with_several_directories_none_is_assigned():
    """The broker reports the directory once it has created the partition (KIP-858)."""
    image = cluster(log_directories=(DIRECTORY, b"another-one-16-b"))
    partition = with_topics(image, NewTopic("orders")).topics_by_name["orders"].partitions[0]

    assert partition.directories == (UNASSIGNED_DIRECTORY,)


def test_min_insync_replicas_clears_eligible_leaders(image: MetadataImage):
    """As in Kafka's own __transaction_state (KIP-966)."""
    decision = decide_topics(image, NewTopic("t", configs={"min.insync.replicas": "1"}))

    assert [record.message.name for record in decision.records][2] == "ClearElrRecord"


CASES = {
    "exists": (NewTopic("there"), "TOPIC_ALREADY_EXISTS", "Topic 'there' already exists."),
    "collides": (NewTopic("x_y"), "INVALID_TOPIC_EXCEPTION", "Topic 'x_y' collides with existing topic: x.y"),
    "bad name": (NewTopic("bad!"), "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: 'bad!' contains one or more"),
    "metadata": (
        NewTopic("__cluster_metadata"),
        "INVALID_REQUEST",
        "Creation of internal topic __cluster_metadata is prohibited.",
    ),
    "no partitions": (
        NewTopic("t", 0, 1),
        "INVALID_PARTITIONS",
        "Number of partitions was set to an invalid non-positive value.",
    ),
    "no replicas": (
        NewTopic("t", 0, 0),
        "INVALID_REPLICATION_FACTOR",
        "Replication factor must be larger than 0, or -1 to use the default value.",
    ),
    "too many replicas": (
        NewTopic("t", 1, 3),
        "INVALID_REPLICATION_FACTOR",
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because only"
        " 1 broker(s) are registered or some brokers have all their log directories cordoned.",
    ),
    "null config": (
        NewTopic("t", configs={"retention.ms": None, "segment.ms": None}),
        "INVALID_CONFIG",
        "Null value not supported for topic configs: retention.ms,segment.ms",
    ),
    "factor and assignment": (
        NewTopic("t", -1, 1, ((0, (1,)),)),
        "INVALID_REQUEST",
        "A manual partition assignment was specified, but replication factor was not set to -1.",
    ),
    "count and assignment": (
        NewTopic("t", 1, -1, ((0, (1,)),)),
        "INVALID_REQUEST",
        "A manual partition assignment was specified, but numPartitions was not set to -1.",
    ),
    "assigned twice": (
        NewTopic("t", assignments=((0, (1,)), (0, (1,)))),
        "INVALID_REPLICA_ASSIGNMENT",
        "Found multiple manual partition assignments for partition 0",
    ),
    "gap": (
        NewTopic("t", assignments=((0, (1,)), (2, (1,)))),
        "INVALID_REPLICA_ASSIGNMENT",
        "partitions should be a consecutive 0-based integer sequence",
    ),
    "unknown broker": (
        NewTopic("t", assignments=((0, (7,)),)),
        "INVALID_REPLICA_ASSIGNMENT",
        "The manual partition assignment includes broker 7, but no such broker is registered.",
    ),
    "broker twice": (
        NewTopic("t", assignments=((0, (1, 1)),)),
        "INVALID_REPLICA_ASSIGNMENT",
        "The manual partition assignment includes the broker 1 more than once.",
    ),
    "no brokers": (
        NewTopic("t", assignments=((0, ()),)),
        "INVALID_REPLICA_ASSIGNMENT",
        "The manual partition assignment includes an empty replica list.",
    ),
    "too large": (NewTopic("t", 10_001), "POLICY_VIOLATION", "Excessively large number of partitions per request."),
}


@pytest.mark.parametrize("case", CASES)
def test_rejected_topic(image: MetadataImage, case: str):
    """Each kind of error, with its code and the message that tools print; nothing is written."""
    topic, code, message = CASES[case]
    decision = decide_topics(with_topics(image, NewTopic("there"), NewTopic("x.y")), topic)
    (result,) = decision.results

    assert result.error_code.name == code
    assert result.error_message is not None
    assert result.error_message.startswith(message)
    assert decision.records == []


def test_config_problem_is_reported(image: MetadataImage):
    """Configurations are checked before counts."""
    decision = decide_topics(
        image,
        NewTopic("t", 1, 3, configs={"no.such": "1"}),
        check_config=lambda _: "Unknown topic config name: x",
    )
    (result,) = decision.results

    assert result.error_code is ErrorCode.INVALID_CONFIG
    assert result.error_message == "Unknown topic config name: x"


def test_duplicates_are_rejected_once_and_last(image: MetadataImage):
    """Neither duplicate is created; the other topics are."""
    decision = decide_topics(image, NewTopic("d1"), NewTopic("d1"), NewTopic("d2"))

    assert [(result.name, result.error_code) for result in decision.results] == [
        ("d2", ErrorCode.NONE),
        ("d1", ErrorCode.INVALID_REQUEST),
    ]
    assert decision.results[1].error_message == "Duplicate topic name."


def test_replicas_are_spread_over_brokers():
    """Each live broker leads as many; fenced brokers get replicas but do not lead."""
    image = with_topics(cluster(brokers=3, fenced=1), NewTopic("t", 4, 3))
    partitions = image.topics_by_name["t"].partitions

    assert Counter(partition.leader for partition in partitions.values()) == {1: 2, 2: 2}
    assert {partition.isr for partition in partitions.values()} == {(1, 2), (2, 1)}
    assert all(sorted(partition.replicas) == [1, 2, 3] for partition in partitions.values())


def test_a_broker_that_is_cordoned_gets_no_new_partitions():
    """KIP-1066: all of its log directories. As on Kafka 4.4.0, a manual assignment may not use it either."""
    image = cluster(brokers=2)
    replay_all(image, cordon_directories(image, 2, [DIRECTORY]))
    made = with_topics(image, NewTopic("t", 4)).topics_by_name["t"].partitions
    assert {partition.replicas for partition in made.values()} == {(1,)}
    (result,) = decide_topics(image, NewTopic("two", 1, 2)).results
    assert result.error_message == (
        "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because only"
        " 1 broker(s) are registered or some brokers have all their log directories cordoned."
    )
    by_hand = NewTopic("by-hand", assignments=((0, (2,)),))
    (result,) = decide_topics(image, by_hand).results
    assert result.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    replay_all(image, cordon_directories(image, 2, []))
    with_topics(image, by_hand, NewTopic("both", 1, 2))


def test_no_broker_that_may_lead():
    """All brokers are fenced."""
    (result,) = decide_topics(cluster(brokers=1, fenced=1), NewTopic("t")).results

    assert result.error_code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert result.error_message == (
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log"
        " directories cordoned."
    )


def test_all_assignments_have_the_same_number_of_replicas():
    """The first one determines the number."""
    topic = NewTopic("t", assignments=((0, (1,)), (1, (1, 2))))
    (result,) = decide_topics(cluster(brokers=2), topic).results

    assert result.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert result.error_message is not None
    assert "a partition with 2 replica(s), but this is not consistent with previous" in result.error_message


def test_assignment_to_fenced_brokers_only():
    """None of them may lead."""
    (result,) = decide_topics(cluster(brokers=2, fenced=1), NewTopic("t", assignments=((0, (2,)),))).results

    assert result.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert result.error_message is not None
    assert result.error_message.endswith("partition 0 are fenced or in controlled shutdown.")


def test_old_metadata_version_gets_old_records():
    """Records of 3.5 have no directories."""
    image = cluster()
    image.features = {"metadata.version": 11}
    decision = decide_topics(image, NewTopic("t"))
    replay_all(image, decision.records)

    assert [record.version for record in decision.records] == [0, 0]
    assert image.topics_by_name["t"].partitions[0].directories == ()
