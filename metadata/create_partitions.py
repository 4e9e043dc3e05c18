"""Decisions about more partitions for existing topics (KIP-195). The number of partitions cannot be reduced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from metadata.decision import MAX_PARTITIONS_PER_REQUEST, TOO_MANY_PARTITIONS, Admit, Decision, Refused, unlimited
from metadata.framing import MetadataRecord
from metadata.image import MetadataImage
from metadata.replica_placement import check_manual, new_partition, place_replicas
from metadata.striped_placer import RandomBelow
from protocol.error_codes import ErrorCode


class MorePartitions(msgspec.Struct, frozen=True):
    """The new number of partitions of a topic, and the brokers of each new one, if the client assigns them."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


class MorePartitionsResult(msgspec.Struct, frozen=True):
    """The result for a topic."""

    name: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


def create_partitions(
    image: MetadataImage, topics: Sequence[MorePartitions], *, random_below: RandomBelow, admit: Admit = unlimited
) -> Decision[MorePartitionsResult]:
    """Decide for each topic. As in Kafka, a name that is given twice is rejected once, at the beginning."""
    times = Counter(topic.name for topic in topics)
    decision: Decision[MorePartitionsResult] = Decision(
        results=[
            MorePartitionsResult(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            for name, count in times.items()
            if count > 1
        ]
    )
    for topic in topics:
        if times[topic.name] > 1:
            continue
        try:
            records = _more_partitions(image, topic, MAX_PARTITIONS_PER_REQUEST - len(decision.records), random_below)
            admit(len(records))
        except Refused as refusal:
            decision.results.append(MorePartitionsResult(topic.name, refusal.error_code, refusal.message))
        else:
            decision.records.extend(records)
            decision.results.append(MorePartitionsResult(topic.name))
    return decision


def _more_partitions(
    image: MetadataImage, wanted: MorePartitions, limit: int, random_below: RandomBelow
) -> list[MetadataRecord]:
    topic = image.topic(wanted.name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    have = len(topic.partitions)
    if wanted.count == have:
        raise Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if wanted.count < have:
        message = f"The topic {wanted.name} currently has {have} partition(s); {wanted.count} would not be an increase."
        raise Refused(ErrorCode.INVALID_PARTITIONS, message)
    additional = wanted.count - have
    if additional > limit:
        raise Refused(ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
    factor = len(topic.partitions[0].replicas)
    manual = wanted.assignments is not None
    if wanted.assignments is None:
        replicas = place_replicas(image, additional, factor, random_below)
    elif len(wanted.assignments) != additional:
        message = (
            f"Attempted to add {additional} additional partition(s), but only {len(wanted.assignments)} assignment(s)"
            " were specified."
        )
        raise Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    else:
        replicas = list(wanted.assignments)
        for each in replicas:
            check_manual(image, each, factor)
    return [
        new_partition(image, topic.topic_id, have + index, each, manual=manual) for index, each in enumerate(replicas)
    ]
