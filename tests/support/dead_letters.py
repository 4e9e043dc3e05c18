"""Settings and feature levels for tests of dead-letter queues (KIP-1191)."""

from __future__ import annotations

from typing import Any

from protocol.messages.update_features import UPDATE_FEATURES, FeatureUpdateKey
from tests.support.share_client import ShareClient

#: The settings of a topic that share groups may use as their queue.
ENABLED = {"errors.deadletterqueue.group.enable": "true"}
_LEVELS = (("metadata.version", 31), ("share.version", 2))


def raise_levels(client: Any) -> None:
    """Raise the feature levels of a new directory to those that dead-letter queues need."""
    updates = [FeatureUpdateKey(feature=name, max_version_level=level) for name, level in _LEVELS]
    answer = client.call(UPDATE_FEATURES, 2, feature_updates=updates)
    assert not answer.error_code, answer


def use_queue(client: ShareClient, topic: str, *, copy: bool = True, deliveries: int = 2) -> None:
    """Name the topic in the group's configuration."""
    client.configure(
        errors_deadletterqueue_topic_name=topic,
        errors_deadletterqueue_copy_record_enable=str(copy).lower(),
        share_delivery_count_limit=str(deliveries),
    )
