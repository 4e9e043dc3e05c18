"""Connections of a member to the controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from broker.network.outbound_client import OpenConnection, OutboundClient, OutboundOptions
from broker.network.outbound_errors import OutboundError
from broker.network.outbound_security import OutboundSecurity
from protocol.client_session import Response
from protocol.schema import Api, Struct
from replication.observing import Endpoint
from runtime.deferred import Deferred
from runtime.timers import Timers


class NoController(OutboundError):
    """It is unknown at the moment which controller is the active one."""

    def __init__(self) -> None:
        super().__init__("controller", "no active controller is known")


class ControllerClients:
    """Creates clients of controllers, which have the security of the controller listener.

    No request waits longer than `most_timeout_ms` (controller.socket.timeout.ms). `open_connection` is as in
    `OutboundClient`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timers: Timers,
        options: OutboundOptions,
        security: OutboundSecurity,
        most_timeout_ms: int,
        open_connection: OpenConnection | None = None,
    ) -> None:
        self._most_timeout_ms = most_timeout_ms
        self._loop = loop
        self._timers = timers
        self._options = options
        self._security = security
        self._open_connection = open_connection

    def new(self, endpoint: Endpoint, client_id: str, request_timeout_ms: int | None = None) -> OutboundClient:
        """Return a client of one controller. Without a timeout it is request.timeout.ms."""
        options = self.options(client_id, request_timeout_ms)
        return OutboundClient(
            self._loop,
            self._timers,
            endpoint.host,
            endpoint.port,
            options,
            self._security,
            open_connection=self._open_connection,
        )

    def options(self, client_id: str, request_timeout_ms: int | None) -> OutboundOptions:
        """Return the options of a client."""
        timeout_ms = self._options.request_timeout_ms if request_timeout_ms is None else request_timeout_ms
        return replace(self._options, client_id=client_id, request_timeout_ms=min(timeout_ms, self._most_timeout_ms))


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

    def __init__(self, clients: ControllerClients, client_id: str, request_timeout_ms: int | None = None) -> None:
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
            self._client = self._clients.new(endpoint, self._client_id, self._request_timeout_ms)
        return self._client

    def close(self) -> None:
        """Close the connection. Its requests fail."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


Leader = Callable[[], Endpoint | None]
"""Returns the address of the active controller, or None."""
