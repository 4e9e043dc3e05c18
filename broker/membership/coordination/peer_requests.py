"""Requests of a member's coordinators to other brokers, over one connection to each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.network.outbound_errors import ConnectionFailed, OutboundError
from protocol.client_session import Response
from protocol.error_codes import EncodeError, ProtocolError
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.membership.peers import Peers
    from broker.network.outbound_client import OutboundClient
    from protocol.schema import Api, Struct
    from replication.observing import Endpoint

#: Why a request has no result: no answer, one that cannot be read, or no version that both brokers know.
NO_RESULT = (OutboundError, ProtocolError, EncodeError)


class BrokerRequests(Protocol):
    """The way to other brokers."""

    def request(self, broker_id: int, api: Api, request: Struct) -> Deferred[Response]:
        """Send a request to a broker. Fails with OutboundError or ProtocolError."""


class _Connected(NamedTuple):
    endpoint: Endpoint
    client: OutboundClient


class PeerRequests:
    """A connection to each broker that was needed, at the address that it has now.

    Args:
        client_id: what the other brokers see.
    """

    def __init__(self, peers: Peers, client_id: str) -> None:
        self._peers = peers
        self._client_id = client_id
        self._connected: dict[int, _Connected] = {}

    def request(self, broker_id: int, api: Api, request: Struct) -> Deferred[Response]:
        """Send a request to a broker. Fails with OutboundError or ProtocolError."""
        client = self._client(broker_id)
        if client is None:
            failed: Deferred[Response] = Deferred()
            failed.fail(ConnectionFailed(f"broker {broker_id}", "it is not registered"))
            return failed
        return client.request(api, request)

    def close(self) -> None:
        """Close all connections."""
        for each in self._connected.values():
            each.client.close()
        self._connected.clear()

    def _client(self, broker_id: int) -> OutboundClient | None:
        endpoint, connected = self._peers.endpoint(broker_id), self._connected.get(broker_id)
        if connected is not None and connected.endpoint == endpoint:
            return connected.client
        if connected is not None:
            del self._connected[broker_id]
            connected.client.close()
        client = self._peers.client(broker_id, self._client_id)
        if client is not None and endpoint is not None:
            self._connected[broker_id] = _Connected(endpoint, client)
        return client
