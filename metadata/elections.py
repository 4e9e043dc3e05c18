"""Decisions about leaders that a client requests (KIP-183, KIP-460)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from metadata.decision import Decision, PartitionResult, Refused
from metadata.framing import MetadataRecord, new_record
from metadata.image import MetadataImage
from metadata.partition_change import Election, Wanted, change_of
from metadata.partition_registration import NO_LEADER
from metadata.partition_rules import min_isr, possible_leaders, rules_of
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import PartitionChangeRecord


class ElectionType(IntEnum):
    """PREFERRED: the first replica, if it is in sync. UNCLEAN: any live replica, even if records are lost."""

    PREFERRED = 0
    UNCLEAN = 1


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
    election = Election.PREFERRED if preferred else Election.UNCLEAN
    rules = rules_of(image, possible_leaders(image, partition))
    fields = change_of(partition, min_isr(image, name), rules, Wanted(election=election))
    if not fields and preferred:
        message = "The preferred leader was not available."
        raise Refused(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, message)
    if not fields:
        message = "Eligible topic partition leaders are not available."
        raise Refused(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, message)
    return new_record(
        image.metadata_version, PartitionChangeRecord, partition_id=index, topic_id=topic.topic_id, **fields
    )
