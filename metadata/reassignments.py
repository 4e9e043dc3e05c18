"""Decisions about reassignments: other replicas for a partition, and the way back (KIP-455, KIP-860).

New replicas join before old ones leave: until then a partition has both. A reassignment ends when all new replicas are
in sync (`partition_change.Assignment`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from metadata.decision import Decision, PartitionResult, Refused
from metadata.framing import MetadataRecord, new_record
from metadata.image import MetadataImage
from metadata.partition_change import Election, Replicas, Wanted, change_of, without
from metadata.partition_registration import PartitionRegistration
from metadata.partition_rules import MayBeUnclean, min_isr, possible_leaders, rules_of
from metadata.replica_placement import check_manual
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import PartitionChangeRecord

Target: TypeAlias = tuple[str, int, Replicas | None]
"""Topic, partition, and the replicas that it shall have; None: end its reassignment and go back."""


def never(topic: str) -> bool:
    """Allow no unclean election."""
    return False


def alter_reassignments(
    image: MetadataImage,
    targets: Sequence[Target],
    *,
    may_change_factor: bool = True,
    may_be_unclean: MayBeUnclean = never,
) -> Decision[PartitionResult]:
    """Decide for each partition on its own."""
    decision: Decision[PartitionResult] = Decision()
    for name, index, replicas in targets:
        try:
            decision.records.extend(_alter(image, name, index, replicas, may_change_factor, may_be_unclean))
        except Refused as refusal:
            decision.results.append(PartitionResult(name, index, refusal.error_code, refusal.message))
        else:
            decision.results.append(PartitionResult(name, index))
    return decision


def _alter(
    image: MetadataImage,
    name: str,
    index: int,
    replicas: Replicas | None,
    may_change_factor: bool,
    may_be_unclean: MayBeUnclean,
) -> list[MetadataRecord]:
    topic = image.topic(name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(index)
    if partition is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    rules = rules_of(image, possible_leaders(image, partition))
    if replicas is None:
        eligible = partition.eligible_leader_replicas if rules.has_eligible_replicas else ()
        wanted = _cancellation(partition, name, index, may_be_unclean=may_be_unclean(name), eligible=eligible)
    else:
        check_manual(image, replicas, None)
        if not may_change_factor:
            _check_factor(partition, replicas)
        wanted = _reassignment(partition, replicas)
    fields = change_of(partition, min_isr(image, name), rules, wanted)
    return [_record(image, topic.topic_id, index, fields)] if fields else []


def _record(image: MetadataImage, topic_id: bytes, index: int, fields: dict[str, Any]) -> MetadataRecord:
    return new_record(image.metadata_version, PartitionChangeRecord, topic_id=topic_id, partition_id=index, **fields)


def _reassignment(partition: PartitionRegistration, replicas: Replicas) -> Wanted:
    """Replace the current reassignment, too: a replica that it added stays one that is added, if it is wanted."""
    removing = tuple(sorted(set(partition.replicas) - set(replicas)))
    old = without(partition.replicas, partition.adding_replicas)
    return Wanted(replicas=replicas + removing, removing=removing, adding=tuple(sorted(set(replicas) - set(old))))


def _cancellation(
    partition: PartitionRegistration,
    name: str,
    index: int,
    *,
    may_be_unclean: bool = False,
    eligible: Replicas = (),
) -> Wanted:
    """Go back to the replicas before the reassignment. Raises Refused.

    If only added replicas are in sync, or none, the topic has to allow unclean elections. The first of the other
    replicas is then in sync, unless one of them is `eligible`. Apache Kafka 4.4 also then puts the first one into the
    in-sync set: it may lack records that the eligible one has, and while it is away no eligible replica may lead.
    """
    if not partition.is_reassigning:
        raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = without(partition.replicas, partition.adding_replicas)
    isr = without(partition.isr, partition.adding_replicas)
    if not isr and not replicas:
        message = "Invalid replica assignment: addingReplicas contains all replicas."
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    if not isr and not may_be_unclean:
        message = (
            f"Unable to revert partition assignment for {name}:{index} because it would require an unclean leader"
            " election."
        )
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    election = Election.UNCLEAN if may_be_unclean else Election.ONLINE
    if not isr and set(eligible).isdisjoint(replicas):
        isr = replicas[:1]
    return Wanted(isr=isr, replicas=replicas, removing=(), adding=(), election=election)


def _check_factor(partition: PartitionRegistration, replicas: Replicas) -> None:
    """Raise Refused if the partition would have another number of replicas than after its current reassignment."""
    now = len(without(partition.replicas, partition.removing_replicas))
    if now != len(replicas):
        message = f"The replication factor is changed from {now} to {len(replicas)}"
        raise Refused(ErrorCode.INVALID_REPLICATION_FACTOR, message)
