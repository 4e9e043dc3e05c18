"""Connections of a member to the controllers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from broker.network.outbound_client import OutboundClient
from broker.network.outbound_clients import OutboundClients
from broker.network.outbound_errors import OutboundError
from protocol.client_session import Response
from protocol.schema import Api, Struct
from replication.observing import Endpoint
from runtime.deferred import Deferred

#: A hint for lines of the log, while requests to the controllers have no response.
CHECK_CONTROLLERS = "Check that a majority of the controllers runs, and that this broker reaches them"


class NoController(OutboundError):
    """It is unknown at the moment which controller is the active one."""

    def __init__(self) -> None:
        super().__init__("controller", "no active controller is known")


class ControllerChannel(Protocol):
    """Requests to the active controller: Kafka's NodeToControllerChannelManager."""

    def request(self, endpoint: Endpoint | None, api: Api, body: Struct) -> Deferred[Response]:
        """Send a request. Fails with OutboundError where there is no response."""

    def close(self) -> None:
        """Close the channel. Its requests fail."""


class NetworkChannel:
    """A channel to one controller at a time, over the network.

    It connects with the first request, and again when a request is for another controller.
    """

    def __init__(self, clients: OutboundClients, client_id: str, request_timeout_ms: int | None = None) -> None:
        self._clients = clients
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._endpoint: Endpoint | None = None
        self._client: OutboundClient | None = None

    def request(self, endpoint: Endpoint | None, api: Api, body: Struct) -> Deferred[Response]:
        """Send a request, as `OutboundClient.request`. Fails with NoController if there is no endpoint."""
        client = self._at(endpoint)
        if client is None:
            failed: Deferred[Response] = Deferred()
            failed.fail(NoController())
            return failed
        return client.request(api, body)

    def _at(self, endpoint: Endpoint | None) -> OutboundClient | None:
        if endpoint is None:
            return None
        if self._client is None or endpoint != self._endpoint:
            self.close()
            self._endpoint = endpoint
            self._client = self._clients.new(*endpoint, self._client_id, self._request_timeout_ms)
        return self._client

    def close(self) -> None:
        """Close the connection. Its requests fail."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


Leader = Callable[[], Endpoint | None]
"""Returns the address of the active controller, or None."""
