"""The other brokers of a cluster: their epochs, their addresses, and connections to them."""

from __future__ import annotations

from broker.network.outbound_client import OutboundClient
from broker.network.outbound_clients import OutboundClients
from broker.network.outbound_connection import SYSTEM_BUFFER
from broker.network.shared_memory import SharedMemory
from metadata.image import MetadataImage
from replication.observing import Endpoint


class Peers:
    """The brokers as this one knows them by the metadata, on the inter-broker listener.

    Args:
        listener: the name of that listener.
    """

    def __init__(
        self,
        image: MetadataImage,
        clients: OutboundClients,
        listener: str,
    ) -> None:
        self._image = image
        self._clients = clients
        self._listener = listener

    def broker_epoch(self, broker_id: int) -> int | None:
        """Return the epoch of a broker that is neither fenced nor in its controlled shutdown, else None."""
        registration = self._image.brokers.get(broker_id)
        return registration.broker_epoch if registration is not None and registration.is_active else None

    def endpoint(self, broker_id: int) -> Endpoint | None:
        """Return the address of a broker; None if it is not registered, or has no such listener."""
        registration = self._image.brokers.get(broker_id)
        for each in registration.endpoints if registration is not None else ():
            if each.name == self._listener:
                return Endpoint(each.host, each.port)
        return None

    def client(
        self,
        broker_id: int,
        client_id: str,
        request_timeout_ms: int | None = None,
        receive_buffer_bytes: int = SYSTEM_BUFFER,
        memory: SharedMemory | None = None,
    ) -> OutboundClient | None:
        """Return a new client of a broker, which the caller closes; None without an address.

        Without a timeout it is request.timeout.ms. `memory` as in `OutboundClient`.
        """
        endpoint = self.endpoint(broker_id)
        if endpoint is None:
            return None
        return self._clients.new(*endpoint, client_id, request_timeout_ms, receive_buffer_bytes, memory)
