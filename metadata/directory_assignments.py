"""The log directories of replicas, as their brokers report them (KIP-858)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import field

from metadata.bulk_records import Changes
from metadata.framing import new_record
from metadata.image import MetadataImage, TopicImage
from metadata.partition_change import Wanted, change_of
from metadata.partition_registration import NO_LEADER, PartitionRegistration
from metadata.partition_rules import min_isr, possible_leaders, rules_of
from metadata.replay import changed_registration
from protocol.error_codes import ErrorCode
from protocol.messages.cluster_metadata import PartitionChangeRecord


class Placement(msgspec.Struct, frozen=True):
    """A replica of the reporting broker is in the log directory with this id."""

    topic_id: bytes
    partition: int
    directory: bytes


class Assignments(msgspec.Struct):
    """The records, the error of each placement, and the partitions whose directory is offline: their leader moves."""

    records: list[Changes] = field(default_factory=list)
    errors: list[ErrorCode] = field(default_factory=list)
    offline: dict[tuple[bytes, int], tuple[TopicImage, int, PartitionRegistration]] = field(default_factory=dict)


def assign_directories(image: MetadataImage, broker_id: int, placements: Sequence[Placement]) -> Assignments:
    """Decide about each placement of a registered broker, whose epoch the caller has checked."""
    decision = Assignments()
    for each in placements:
        decision.errors.append(_assign(image, broker_id, each, decision))
    return decision


def _assign(image: MetadataImage, broker_id: int, placement: Placement, decision: Assignments) -> ErrorCode:
    topic = image.topic_by_id(placement.topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(placement.partition)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker_id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    is_online = image.brokers[broker_id].has_directory(placement.directory)
    may_lead = possible_leaders(image, partition)
    # Apache Kafka looks at the former directory alone, and may elect the replica though its new one has failed.
    barred = NO_LEADER if is_online or partition.leader == broker_id else broker_id
    rules = rules_of(image, lambda each: each != barred and may_lead(each))
    wanted = Wanted(directories={broker_id: placement.directory})
    fields = change_of(partition, min_isr(image, topic.name), rules, wanted)
    if fields:
        record = new_record(
            image.metadata_version,
            PartitionChangeRecord,
            topic_id=topic.topic_id,
            partition_id=placement.partition,
            **fields,
        )
        decision.records.append(record)
        if "replicas" in fields:  # a reassignment ends: those that leave may not lead, as they may in Apache Kafka
            partition = changed_registration(partition, record.value)
    if not is_online:
        decision.offline[topic.topic_id, placement.partition] = topic, placement.partition, partition
    return ErrorCode.NONE
