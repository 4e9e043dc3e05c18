"""Elections. Codes and messages are Apache Kafka 4.3.1's."""

from __future__ import annotations

import pytest

from metadata.create_topics import NewTopic
from metadata.elections import ElectionType, elect_leaders
from metadata.image import MetadataImage
from metadata.reassignments import alter_reassignments
from metadata.registration import keep_online_directories, leave
from metadata.replay import replay_all
from protocol.error_codes import ErrorCode
from tests.support.images import cluster, with_topics

FAILED, WORKING = b"directory-failed", b"directory-that-w"


@pytest.fixture
def image() -> MetadataImage:
    return with_topics(cluster(), NewTopic("pa", 1, 1))


@pytest.fixture
def pair() -> MetadataImage:
    return with_topics(cluster(brokers=2), NewTopic("pa", 1, 2))


@pytest.mark.parametrize("election_type", ElectionType)
def test_election_that_is_not_needed(image: MetadataImage, election_type: ElectionType):
    """The preferred replica leads already, or any replica does; not in the result if all were requested."""
    (result,) = elect_leaders(image, election_type, [("pa", 0)]).results

    assert result.error_code is ErrorCode.ELECTION_NOT_NEEDED
    assert result.error_message == "Leader election not needed for topic partition."
    assert elect_leaders(image, election_type, None).results == []


@pytest.mark.parametrize(
    ("partition", "message"), [(("nope", 0), "No such topic as nope"), (("pa", -1), "No such partition as pa--1")]
)
def test_election_of_missing_partitions(image: MetadataImage, partition: tuple[str, int], message: str):
    """By topic and by partition."""
    (result,) = elect_leaders(image, ElectionType.PREFERRED, [partition]).results

    assert result.error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert result.error_message == message


def test_preferred_leader_takes_over(pair: MetadataImage):
    """Once the order of the replicas has changed, the first of them is elected on request."""
    reordered = alter_reassignments(pair, [("pa", 0, (2, 1))])
    assert [r.error_code for r in reordered.results] == [ErrorCode.NONE]
    replay_all(pair, reordered.records)
    replay_all(pair, elect_leaders(pair, ElectionType.PREFERRED, None).records)
    partition = pair.topics_by_name["pa"].partitions[0]

    assert (partition.leader, partition.leader_epoch, partition.replicas) == (2, 1, (2, 1))


def test_no_eligible_replica(image: MetadataImage):
    """The only replica is offline."""
    replay_all(image, leave(image, 1))

    (preferred,) = elect_leaders(image, ElectionType.PREFERRED, None).results
    (unclean,) = elect_leaders(image, ElectionType.UNCLEAN, None).results
    assert preferred.error_code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert unclean.error_code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_replica_in_a_failed_directory_does_not_lead():
    """Neither by an election, nor by a reassignment to the replicas that there are."""
    image = with_topics(cluster(log_directories=(FAILED, WORKING)), NewTopic("pa", 1, 1))
    del image.features["eligible.leader.replicas.version"]
    partitions = image.topics_by_name["pa"].partitions
    partitions[0] = partitions[0]._replace(directories=(FAILED,))
    replay_all(image, keep_online_directories(image, 1, [WORKING]))
    assert (partitions[0].leader, partitions[0].isr) == (-1, (1,))
    (unclean,) = elect_leaders(image, ElectionType.UNCLEAN, None).results
    assert unclean.error_code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert alter_reassignments(image, [("pa", 0, (1,))]).records == []


def test_leader_that_leaves_is_not_followed_by_a_failed_directory():
    image = with_topics(cluster(brokers=2, log_directories=(FAILED, WORKING)), NewTopic("pa", 1, 2))
    partitions = image.topics_by_name["pa"].partitions
    partitions[0] = partitions[0]._replace(leader=1, directories=(WORKING, FAILED))
    replay_all(image, keep_online_directories(image, 2, [WORKING]))
    partitions[0] = partitions[0]._replace(isr=(1, 2))  # an answer of the former leader came in between
    replay_all(image, leave(image, 1))
    assert partitions[0].leader == -1


def test_unclean_election_elects_a_live_replica(pair: MetadataImage):
    """Broker 1 is offline, and was the only one in sync."""
    partition = pair.topics_by_name["pa"].partitions[0]
    pair.topics_by_name["pa"].partitions[0] = type(partition)((1, 2), (1,), 1, 0, 0)
    replay_all(pair, leave(pair, 1))
    replay_all(pair, elect_leaders(pair, ElectionType.UNCLEAN, [("pa", 0)]).records)
    partition = pair.topics_by_name["pa"].partitions[0]

    assert (partition.leader, partition.isr) == (2, (2,))
