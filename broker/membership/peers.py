"""The other brokers of a cluster: their epochs, their addresses, and connections to them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from broker.network.outbound_client import OpenConnection, OutboundClient, OutboundOptions
from broker.network.outbound_connection import SYSTEM_BUFFER
from broker.network.outbound_security import OutboundSecurity
from broker.network.shared_memory import SharedMemory
from config import BrokerConfig
from metadata.image import MetadataImage
from replication.observing import Endpoint
from runtime.timers import Timers


class Peers:
    """The brokers as this one knows them by the metadata, on the inter-broker listener.

    Args:
        security: of the inter-broker listener.
        open_connection: as in `OutboundClient`.
    """

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        loop: asyncio.AbstractEventLoop,
        timers: Timers,
        security: OutboundSecurity,
        open_connection: OpenConnection | None = None,
    ) -> None:
        self._image = image
        self._loop = loop
        self._timers = timers
        self._security = security
        self._open_connection = open_connection
        self._options = OutboundOptions.from_config(config, "")
        self._listener = config.inter_broker_listener_name

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
        timeout_ms = request_timeout_ms or self._options.request_timeout_ms
        options = replace(
            self._options,
            client_id=client_id,
            request_timeout_ms=timeout_ms,
            receive_buffer_bytes=receive_buffer_bytes,
        )
        return OutboundClient(
            self._loop,
            self._timers,
            endpoint.host,
            endpoint.port,
            options,
            self._security,
            memory=memory,
            open_connection=self._open_connection,
        )
