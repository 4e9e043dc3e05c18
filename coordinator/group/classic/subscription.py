"""Which topics a group of consumers reads, out of the metadata that its members sent for the protocol `consumer`."""

from __future__ import annotations

from collections.abc import Iterable

from protocol.errors import ProtocolError
from protocol.messages.data import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE = "consumer"
#: Bytes of the version in front; whatever it says, the topics come first in the body.
VERSION_BYTES = 2


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The union of the members' topics; None where a subscription is not the consumer protocol's."""
    topics: set[str] = set()
    for subscription in subscriptions:
        try:
            topics.update(ConsumerProtocolSubscription.decode(0, subscription, VERSION_BYTES)[0].topics)
        except ProtocolError:
            return None
    return frozenset(topics)
