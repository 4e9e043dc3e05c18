"""The rules of an image: which brokers may lead, and what the settings of a topic say about its partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from metadata.configs import MIN_INSYNC_REPLICAS
from metadata.features import ELIGIBLE_LEADER_REPLICAS
from metadata.image import MetadataImage, ResourceType
from metadata.partition_change import Rules
from metadata.partition_registration import PartitionRegistration
from metadata.replica_placement import default_directory

MayBeUnclean: TypeAlias = Callable[[str], bool]
"""Returns whether a topic allows unclean elections (unclean.leader.election.enable)."""


def rules_of(image: MetadataImage, may_lead: Callable[[int], bool]) -> Rules:
    """Return the rules of the image, with those brokers as leaders."""
    return Rules(
        metadata_version=image.metadata_version,
        has_eligible_replicas=bool(image.features.get(ELIGIBLE_LEADER_REPLICAS, 0)),
        may_lead=may_lead,
        default_directory=lambda broker_id: default_directory(image.brokers[broker_id].log_directories),
    )


def possible_leaders(image: MetadataImage, partition: PartitionRegistration) -> Callable[[int], bool]:
    """Return a test of brokers: an active one may lead whose replica is in a directory that works (KIP-858)."""

    def may_lead(broker_id: int) -> bool:
        directory = partition.directory_of(broker_id)
        return is_active(image, broker_id) and image.brokers[broker_id].has_directory(directory)

    return may_lead


def is_active(image: MetadataImage, broker_id: int) -> bool:
    """Return whether the broker may take part in partitions; an unknown one may not."""
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.is_active


def min_isr(image: MetadataImage, topic: str) -> int:
    """Return the topic's min.insync.replicas, but at most the number of its replicas.

    With KIP-966 the default of all brokers is always in the metadata.
    """
    found = image.topic_config(topic).get(MIN_INSYNC_REPLICAS)
    if found is None:
        found = image.config(ResourceType.BROKER, "").get(MIN_INSYNC_REPLICAS, "1")
    first = image.topics_by_name[topic].partitions.get(0)
    return int(found) if first is None else min(int(found), len(first.replicas))
