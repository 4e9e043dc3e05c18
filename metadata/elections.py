"""Decisions about leaders: requested elections (KIP-183, KIP-460) and reassignments (KIP-455).

With one broker there is little to choose: a partition is led by its only replica, or waits for it. The rules for the
preferred and the unclean election are the general ones. Moving replicas to other brokers is not supported.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import msgspec

from metadata.decision import Decision, Refused
from metadata.framing import MetadataRecord, new_record
from metadata.image import MetadataImage
from metadata.partition_registration import NO_LEADER, PartitionRegistration
from metadata.replica_placement import check_manual
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import PartitionChangeRecord


class ElectionType(IntEnum):
    """PREFERRED: the first replica, if it is in sync. UNCLEAN: any live replica, even if records are lost."""

    PREFERRED = 0
    UNCLEAN = 1


class PartitionResult(msgspec.Struct, frozen=True):
    """The result for a partition."""

    topic: str
    partition: int
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


def elect_leaders(
    image: MetadataImage, election_type: ElectionType, partitions: Sequence[tuple[str, int]] | None
) -> Decision[PartitionResult]:
    """Elect a leader for each (topic, partition).

    None: for all, and the results leave out those that need no election.
    """
    decision: Decision[PartitionResult] = Decision()
    everything = partitions is None
    if partitions is None:
        partitions = [(topic.name, index) for topic in image.topics_by_name.values() for index in topic.partitions]
    for topic, index in partitions:
        try:
            decision.records.append(_elect(image, election_type, topic, index))
        except Refused as refusal:
            if not (everything and refusal.error_code is ErrorCode.ELECTION_NOT_NEEDED):
                decision.results.append(PartitionResult(topic, index, refusal.error_code, refusal.message))
        else:
            decision.results.append(PartitionResult(topic, index))
    return decision


def _elect(image: MetadataImage, election_type: ElectionType, name: str, index: int) -> MetadataRecord:
    topic = image.topic(name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(index)
    if partition is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    preferred = election_type is ElectionType.PREFERRED
    if partition.has_preferred_leader if preferred else partition.leader != NO_LEADER:
        message = "Leader election not needed for topic partition."
        raise Refused(ErrorCode.ELECTION_NOT_NEEDED, message)
    active = [broker for broker in partition.replicas if broker in image.brokers and image.brokers[broker].is_active]
    if preferred:
        leader = partition.replicas[0]
        if leader not in active or leader not in partition.isr:
            message = "The preferred leader was not available."
            raise Refused(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, message)
        return new_record(
            image.metadata_version, PartitionChangeRecord, partition_id=index, topic_id=topic.topic_id, leader=leader
        )
    if not active:
        message = "Eligible topic partition leaders are not available."
        raise Refused(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, message)
    return new_record(
        image.metadata_version,
        PartitionChangeRecord,
        partition_id=index,
        topic_id=topic.topic_id,
        leader=active[0],
        isr=[active[0]],
    )


def alter_reassignments(
    image: MetadataImage, targets: Sequence[tuple[str, int, tuple[int, ...] | None]]
) -> Decision[PartitionResult]:
    """Change the replicas of each (topic, partition) on its own; None cancels a reassignment."""
    decision: Decision[PartitionResult] = Decision()
    for name, index, replicas in targets:
        try:
            decision.records.extend(_reassign(image, name, index, replicas))
        except Refused as refusal:
            decision.results.append(PartitionResult(name, index, refusal.error_code, refusal.message))
        else:
            decision.results.append(PartitionResult(name, index))
    return decision


def _reassign(image: MetadataImage, name: str, index: int, replicas: tuple[int, ...] | None) -> list[MetadataRecord]:
    topic = image.topic(name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(index)
    if partition is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}.")
    if replicas is None:
        raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    check_manual(image, replicas, None)
    if replicas == partition.replicas:
        return []
    return [_reorder(image, topic.topic_id, index, partition, replicas)]


def _reorder(
    image: MetadataImage, topic_id: bytes, index: int, partition: PartitionRegistration, replicas: tuple[int, ...]
) -> MetadataRecord:
    """Return the record of a new order of the same replicas.

    Raises Refused for other replicas: they would have to be copied.
    """
    if set(replicas) != set(partition.replicas):
        message = "Replicas cannot be moved between brokers: replication is not served yet."
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return new_record(
        image.metadata_version,
        PartitionChangeRecord,
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        directories=[partition.directory_of(broker) for broker in replicas] if partition.directories else None,
    )
