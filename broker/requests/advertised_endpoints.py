"""The addresses that clients get for brokers: those advertised for the listener that the client uses (KIP-103).

Without advertised.listeners and without a fixed host of the listener, a client gets the address at which it has reached
this broker, since it can connect to that one again. It gets "localhost" if that stands for the address.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import msgspec

from broker.process.loopback import name_of

if TYPE_CHECKING:
    from broker.metadata_cache import MetadataCache
    from broker.requests.context import ClientConnection
    from config import BrokerConfig
    from protocol.schema import Struct, StructType


class Node(msgspec.Struct, frozen=True):
    """A broker as the clients of one listener see it."""

    node_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


class AdvertisedEndpoints:
    """The brokers with their addresses."""

    def __init__(self, config: BrokerConfig, metadata: MetadataCache) -> None:
        self._config = config
        self._metadata = metadata

    def nodes(self, connection: ClientConnection, *, include_fenced: bool = False) -> Iterator[Node]:
        """Yield the brokers that have the client's listener, in ascending order of their ids.

        This broker is described by its own state, not by its registration. It is left out if it was unregistered.
        """
        config = self._config
        brokers = self._metadata.image.brokers
        for broker_id in sorted(brokers):
            if broker_id == config.node_id:
                host, port = self._address(connection)
                yield Node(broker_id, host, port, config.rack, fenced=False)
                continue
            registration = brokers[broker_id]
            if registration.fenced and not include_fenced:
                continue
            for endpoint in registration.endpoints:
                if endpoint.name == connection.listener_name:
                    yield Node(broker_id, endpoint.host, endpoint.port, registration.rack, registration.fenced)

    def structs(self, connection: ClientConnection, kind: StructType, ids: Collection[int]) -> list[Struct]:
        """Return the addresses of these brokers as structs, for an answer that names them as leaders (KIP-951)."""
        return [
            kind(node_id=each.node_id, host=each.host, port=each.port, rack=each.rack)
            for each in self.nodes(connection)
            if each.node_id in ids
        ]

    def controller_id(self) -> int:
        """Return the broker to which clients send requests for the controller: this one; -1 if it was unregistered."""
        node_id = self._config.node_id
        return node_id if node_id in self._metadata.image.brokers else -1

    def _address(self, connection: ClientConnection) -> tuple[str, int]:
        advertised = self._config.advertised(connection.listener_name)
        if advertised is None:
            return self._own_name(connection), connection.local_port
        return advertised.host or self._own_name(connection), advertised.port or connection.local_port

    def _own_name(self, connection: ClientConnection) -> str:
        listeners = self._config.listeners
        opened = next((each.host for each in listeners if each.name == connection.listener_name), None)
        return name_of(connection.local_host, opened)
