"""Decisions about CreatePartitions. Codes and messages are Apache Kafka 4.3.1's."""

from __future__ import annotations

import pytest

from metadata.create_partitions import MorePartitions, MorePartitionsResult, create_partitions
from metadata.create_topics import NewTopic
from metadata.decision import Decision
from metadata.image import MetadataImage
from metadata.registration import cordon_directories
from metadata.replay import replay_all
from protocol.error_codes import ErrorCode
from tests.support.images import DIRECTORY, cluster, with_topics


@pytest.fixture
def image() -> MetadataImage:
    return with_topics(cluster(), NewTopic("pa", 2, 1))


def decide(image: MetadataImage, topics: list[MorePartitions]) -> Decision[MorePartitionsResult]:
    return create_partitions(image, topics, random_below=lambda _: 0)


def test_all_brokers_are_cordoned(image: MetadataImage):
    """The messages are exactly Kafka 4.4.0's, the first one without a prefix."""
    replay_all(image, cordon_directories(image, 1, [DIRECTORY]))
    (result,) = decide(image, [MorePartitions("pa", 3)]).results
    assert result.error_code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert result.error_message == "All brokers are currently fenced, or have all their log directories cordoned."
    (result,) = decide(image, [MorePartitions("pa", 3, ((1,),))]).results
    assert result.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert result.error_message == (
        "The manual partition assignment includes broker 1, but all its log directories are cordoned."
    )


def test_partitions_are_added_at_the_end(image: MetadataImage):
    """Existing partitions do not change."""
    before = dict(image.topics_by_name["pa"].partitions)
    decision = decide(image, [MorePartitions("pa", 4)])
    replay_all(image, decision.records)

    assert list(image.topics_by_name["pa"].partitions) == [0, 1, 2, 3]
    assert before.items() <= image.topics_by_name["pa"].partitions.items()
    assert decision.results[0].error_code is ErrorCode.NONE


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (MorePartitions("pa", 2), "INVALID_PARTITIONS", "Topic already has 2 partition(s)."),
        (
            MorePartitions("pa", 1),
            "INVALID_PARTITIONS",
            "The topic pa currently has 2 partition(s); 1 would not be an increase.",
        ),
        (MorePartitions("nope", 3), "UNKNOWN_TOPIC_OR_PARTITION", None),
        (
            MorePartitions("pa", 4, ((1,),)),
            "INVALID_REPLICA_ASSIGNMENT",
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            MorePartitions("pa", 3, ((9,),)),
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (MorePartitions("pa", 10_003), "POLICY_VIOLATION", "Excessively large number of partitions per request."),
    ],
)
def test_rejected_partitions(image: MetadataImage, wanted: MorePartitions, code: str, message: str | None):
    """Each kind of error; nothing is written."""
    decision = decide(image, [wanted])

    assert [(r.error_code.name, r.error_message) for r in decision.results] == [(code, message)]
    assert decision.records == []


def test_duplicates_are_rejected_once(image: MetadataImage):
    """Duplicate topics come first in the response."""
    decision = create_partitions(
        image, [MorePartitions("nope", 3), MorePartitions("pa", 3), MorePartitions("pa", 4)], random_below=lambda _: 0
    )

    assert [r.name for r in decision.results] == ["pa", "nope"]
    assert decision.results[0].error_message == "Duplicate topic name."


def test_manual_assignment(image: MetadataImage):
    """One list of brokers per new partition."""
    decision = decide(image, [MorePartitions("pa", 4, ((1,), (1,)))])

    assert [r.value.replicas for r in decision.records] == [[1], [1]]
