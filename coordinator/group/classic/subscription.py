"""The topics that a group of consumers reads, from its members' metadata for the protocol type `consumer`."""

from __future__ import annotations

from collections.abc import Iterable

from protocol.error_codes import ProtocolError
from protocol.messages.data import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE = "consumer"
#: The size of the version prefix. In all versions the topics come first in the body.
VERSION_BYTES = 2


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """Return the union of the members' topics; None if a subscription is not in the consumer protocol's format."""
    topics: set[str] = set()
    for subscription in subscriptions:
        try:
            topics.update(ConsumerProtocolSubscription.decode(0, subscription, VERSION_BYTES)[0].topics)
        except ProtocolError:
            return None
    return frozenset(topics)
