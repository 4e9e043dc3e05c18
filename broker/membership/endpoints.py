"""The brokers of the cluster as clients see them, this one included: by their registrations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.requests.advertised_endpoints import AdvertisedEndpoints, Node

if TYPE_CHECKING:
    from broker.requests.context import ClientConnection


class RegisteredEndpoints(AdvertisedEndpoints):
    """The addresses of a member are those that it registered, and while it is fenced clients do not see it."""

    def nodes(self, connection: ClientConnection, *, include_fenced: bool = False) -> Iterator[Node]:
        brokers = self._metadata.image.brokers
        for broker_id in sorted(brokers):
            registration = brokers[broker_id]
            if registration.fenced and not include_fenced:
                continue
            for endpoint in registration.endpoints:
                if endpoint.name == connection.listener_name:
                    yield Node(broker_id, endpoint.host, endpoint.port, registration.rack, registration.fenced)

    def controller_id(self) -> int:
        """Return a broker that forwards requests to the controller: this one, or while it is fenced another one."""
        alive = [broker_id for broker_id, each in self._metadata.image.brokers.items() if not each.fenced]
        return self._config.node_id if self._config.node_id in alive else min(alive, default=-1)
