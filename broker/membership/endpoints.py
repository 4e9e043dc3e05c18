"""The brokers of the cluster as clients see them, this one included: by their registrations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.requests.advertised_endpoints import AdvertisedEndpoints, Node

if TYPE_CHECKING:
    from broker.metadata_cache import MetadataCache
    from broker.requests.context import ClientConnection
    from config import BrokerConfig


class RegisteredEndpoints(AdvertisedEndpoints):
    """The addresses of a member are those that it registered, and while it is fenced clients do not see it.

    While all brokers are fenced, clients see those that they saw last. Apache Kafka names no broker then, which makes
    librdkafka (2.10 to 2.16) forget all addresses, often for good.
    """

    def __init__(self, config: BrokerConfig, metadata: MetadataCache) -> None:
        super().__init__(config, metadata)
        self._named_last: frozenset[int] = frozenset()

    def nodes(self, connection: ClientConnection, *, include_fenced: bool = False) -> Iterator[Node]:
        brokers = self._metadata.image.brokers
        alive = frozenset(broker_id for broker_id, each in brokers.items() if not each.fenced)
        self._named_last = alive or self._named_last
        for broker_id in sorted(brokers if include_fenced else self._named_last & brokers.keys()):
            registration = brokers[broker_id]
            for endpoint in registration.endpoints:
                if endpoint.name == connection.listener_name:
                    yield Node(broker_id, endpoint.host, endpoint.port, registration.rack, registration.fenced)

    def controller_id(self) -> int:
        """Return a broker that forwards requests to the controller: this one, or while it is fenced another one."""
        alive = [broker_id for broker_id, each in self._metadata.image.brokers.items() if not each.fenced]
        return self._config.node_id if self._config.node_id in alive else min(alive, default=-1)
