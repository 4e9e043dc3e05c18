"""The rules of an image: which brokers may lead, and what the settings of a topic say about its partitions."""

from __future__ import annotations

from collections.abc import Callable

from metadata.configs import MIN_INSYNC_REPLICAS
from metadata.features import ELIGIBLE_LEADER_REPLICAS
from metadata.image import MetadataImage, ResourceType
from metadata.partition_change import Rules
from metadata.replica_placement import default_directory


def rules_of(image: MetadataImage, may_lead: Callable[[int], bool] | None = None) -> Rules:
    """Return the rules; active brokers may lead unless `may_lead` says otherwise."""
    return Rules(
        metadata_version=image.metadata_version,
        has_eligible_replicas=bool(image.features.get(ELIGIBLE_LEADER_REPLICAS, 0)),
        may_lead=(lambda broker_id: is_active(image, broker_id)) if may_lead is None else may_lead,
        default_directory=lambda broker_id: default_directory(image.brokers[broker_id].log_directories),
    )


def is_active(image: MetadataImage, broker_id: int) -> bool:
    """Return whether the broker may take part in partitions; an unknown one may not."""
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.is_active


def min_isr(image: MetadataImage, topic: str) -> int:
    """Return the topic's min.insync.replicas. With KIP-966 the default of all brokers is always in the metadata."""
    found = image.topic_config(topic).get(MIN_INSYNC_REPLICAS)
    if found is None:
        found = image.config(ResourceType.BROKER, "").get(MIN_INSYNC_REPLICAS, "1")
    return int(found)
