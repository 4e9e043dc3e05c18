"""Reassignments. Codes and messages are Apache Kafka 4.4's."""

from __future__ import annotations

import pytest

from metadata.create_topics import NewTopic
from metadata.image import MetadataImage
from metadata.partition_registration import MIGRATING_DIRECTORY, PartitionRegistration
from metadata.reassignments import Target, alter_reassignments
from metadata.registration import leave
from metadata.replay import replay_all
from protocol.error_codes import ErrorCode
from tests.support.images import cluster, with_topics

PLACE = ("pa", 0)


@pytest.fixture
def image() -> MetadataImage:
    """Three brokers, and a partition on the first two."""
    assigned = NewTopic("pa", assignments=((0, (1, 2)),))
    return with_topics(cluster(brokers=3), assigned)


def partition(image: MetadataImage, **changes: object) -> PartitionRegistration:
    """Return the partition, after a change of fields."""
    partitions = image.topics_by_name["pa"].partitions
    partitions[0] = partitions[0]._replace(**changes)
    return partitions[0]


def alter(image: MetadataImage, replicas: tuple[int, ...] | None, **options: bool) -> tuple[ErrorCode, str | None]:
    """Reassign the partition; return the result."""
    decision = alter_reassignments(image, [(*PLACE, replicas)], **options)
    replay_all(image, decision.records)
    (result,) = decision.results
    return result.error_code, result.error_message


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ((*PLACE, None), "NO_REASSIGNMENT_IN_PROGRESS"),
        ((*PLACE, (1, 2)), "NONE"),
        ((*PLACE, (5,)), "INVALID_REPLICA_ASSIGNMENT"),
        ((*PLACE, (1, 1)), "INVALID_REPLICA_ASSIGNMENT"),
        ((*PLACE, ()), "INVALID_REPLICA_ASSIGNMENT"),
        (("nope", 0, (1,)), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("pa", 9, (1,)), "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_nothing_changes(image: MetadataImage, target: Target, code: str):
    """The same replicas are accepted, and invalid ones rejected."""
    decision = alter_reassignments(image, [target])

    assert [r.error_code.name for r in decision.results] == [code]
    assert decision.records == []


def test_new_replicas_join_before_old_ones_leave(image: MetadataImage):
    assert alter(image, (3, 2)) == (ErrorCode.NONE, None)
    during = partition(image)
    assert (during.replicas, during.adding_replicas, during.removing_replicas) == ((3, 2, 1), (3,), (1,))
    assert (during.isr, during.leader, during.leader_epoch) == ((1, 2), 1, 0)


def test_replicas_leave_at_once_if_none_joins(image: MetadataImage):
    """The leader is one of those that stay, in a new epoch."""
    assert alter(image, (2,)) == (ErrorCode.NONE, None)
    after = partition(image)
    assert (after.replicas, after.isr, after.leader, after.leader_epoch) == ((2,), (2,), 2, 1)
    assert not after.is_reassigning


def test_replicas_stay_until_the_others_are_in_sync(image: MetadataImage):
    partition(image, isr=(1,))
    assert alter(image, (2,)) == (ErrorCode.NONE, None)
    assert partition(image).removing_replicas == (1,)


def test_cancelled(image: MetadataImage):
    before = partition(image)
    alter(image, (3, 2))
    partition(image, isr=(1, 2, 3))
    assert alter(image, None) == (ErrorCode.NONE, None)
    after = partition(image)
    assert (after.replicas, set(after.isr), after.leader) == ((2, 1), set(before.isr), before.leader)
    assert not after.is_reassigning


def test_another_reassignment_replaces_the_current_one(image: MetadataImage):
    """A replica that shall no longer be added leaves at once, and one that shall stay after all stays."""
    alter(image, (1, 2, 3))
    assert partition(image).adding_replicas == (3,)
    assert alter(image, (1, 2)) == (ErrorCode.NONE, None)
    assert (partition(image).replicas, partition(image).is_reassigning) == ((1, 2), False)

    alter(image, (3, 2))
    assert alter(image, (1, 2, 3)) == (ErrorCode.NONE, None)
    now = partition(image)
    assert (now.replicas, now.adding_replicas, now.removing_replicas) == ((1, 2, 3), (3,), ())


def test_not_cancelled_if_only_new_replicas_are_in_sync(image: MetadataImage):
    """Going back would lose committed records."""
    partition(image, replicas=(3, 2, 1), adding_replicas=(3,), removing_replicas=(1,), isr=(3,), leader=3)
    message = "Unable to revert partition assignment for pa:0 because it would require an unclean leader election."
    assert alter(image, None) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    partition(image, replicas=(3,), removing_replicas=())
    message = "Invalid replica assignment: addingReplicas contains all replicas."
    assert alter(image, None) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def test_number_of_replicas_may_be_fixed(image: MetadataImage):
    """KIP-860: compared with the number after the reassignment that is in progress."""
    code = ErrorCode.INVALID_REPLICATION_FACTOR
    message = "The replication factor is changed from 2 to 1"
    assert alter(image, (3,), may_change_factor=False) == (code, message)
    assert alter(image, (3, 2), may_change_factor=False) == (ErrorCode.NONE, None)
    assert alter(image, (1, 3), may_change_factor=False) == (ErrorCode.NONE, None)


def test_new_order_needs_no_copies(image: MetadataImage):
    assert alter(image, (2, 1)) == (ErrorCode.NONE, None)
    after = partition(image)
    assert (after.replicas, after.leader, after.is_reassigning) == ((2, 1), 1, False)


def test_directories_of_older_partitions_stay_unknown(image: MetadataImage):
    """Partitions from before 3.7-IV2 have none, and one of their brokers is registered no more."""
    partition(image, replicas=(9, 1, 2), isr=(1, 2), leader=1, directories=())
    replay_all(image, leave(image, 1))
    assert (partition(image).leader, partition(image).directories) == (2, ())
    assert alter(image, (2,)) == (ErrorCode.NONE, None)
    assert (partition(image).replicas, partition(image).directories) == ((2,), (MIGRATING_DIRECTORY,))


def test_leader_that_is_offline_does_not_stay(image: MetadataImage):
    replay_all(image, leave(image, 1))
    assert alter(image, (3, 2)) == (ErrorCode.NONE, None)
    assert partition(image).leader == 2
