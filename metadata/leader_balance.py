"""Elections that the controller starts by itself: preferred leaders, and leaders of partitions that have none.

A run elects a limited number, so that other requests do not wait long behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from metadata.bulk_records import Changes, ChangesBuilder
from metadata.image import MetadataImage, TopicImage
from metadata.partition_change import Election, Wanted, change_of
from metadata.partition_registration import EPOCHS, NO_LEADER, PartitionRegistration
from metadata.partition_rules import MayBeUnclean, min_isr, possible_leaders, rules_of

MAX_ELECTIONS = 1000
"""As in Kafka (QuorumController.MAX_ELECTIONS_PER_IMBALANCE)."""


class Elections(NamedTuple):
    """The records of a run, how many leaders it elected, and whether it ended at the limit."""

    records: list[Changes]
    elected: int
    goes_on: bool


def elect_preferred(
    image: MetadataImage, partitions: Iterable[tuple[TopicImage, int, PartitionRegistration]]
) -> Elections:
    """Elect the first replica of each partition that may lead (auto.leader.rebalance.enable)."""
    return _elect(image, partitions, Wanted(election=Election.PREFERRED))


def elect_unclean(
    image: MetadataImage,
    partitions: Iterable[tuple[TopicImage, int, PartitionRegistration]],
    may_be_unclean: MayBeUnclean,
) -> Elections:
    """Elect any live replica of partitions without a leader, where the topic allows that records are lost."""
    allowed = (each for each in partitions if each[2].leader == NO_LEADER and may_be_unclean(each[0].name))
    return _elect(image, allowed, Wanted(election=Election.UNCLEAN))


def _elect(
    image: MetadataImage, partitions: Iterable[tuple[TopicImage, int, PartitionRegistration]], wanted: Wanted
) -> Elections:
    builder, count = ChangesBuilder(image.metadata_version), 0
    decided: dict[tuple[object, ...], dict[str, Any]] = {}  # partitions that are alike are decided once
    for topic, number, partition in partitions:
        if count >= MAX_ELECTIONS:
            return Elections(builder.changes, count, goes_on=True)
        needed = min_isr(image, topic.name)
        kind = (needed, partition[: EPOCHS.start], partition[EPOCHS.stop :])
        fields = decided.get(kind)
        if fields is None:
            rules = rules_of(image, possible_leaders(image, partition))
            fields = decided[kind] = change_of(partition, needed, rules, wanted)
        builder.add(topic.topic_id, number, fields)
        count += bool(fields)
    return Elections(builder.changes, count, goes_on=False)
