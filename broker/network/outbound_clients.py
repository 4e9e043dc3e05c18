"""Clients of the nodes behind one listener: all controllers, or all brokers of a cluster."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from broker.network.outbound_client import OpenConnection, OutboundClient
from broker.network.outbound_connection import SYSTEM_BUFFER
from broker.network.outbound_options import OutboundOptions
from runtime.timers import Timers

if TYPE_CHECKING:
    from broker.network.outbound_security import OutboundSecurity
    from broker.network.shared_memory import SharedMemory
    from config import BrokerConfig


class OutboundClients:
    """Creates clients, which have the limits of the configuration and the security of the listener.

    Args:
        open_connection: as in `OutboundClient`.
        most_timeout_ms: no request waits longer.
    """

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        timers: Timers,
        security: OutboundSecurity,
        open_connection: OpenConnection | None = None,
        most_timeout_ms: int | None = None,
    ) -> None:
        self._loop = loop
        self._timers = timers
        self._security = security
        self._open_connection = open_connection
        self._options = OutboundOptions.from_config(config, "")
        self._most_timeout_ms = most_timeout_ms

    def new(
        self,
        host: str,
        port: int,
        client_id: str,
        request_timeout_ms: int | None = None,
        receive_buffer_bytes: int = SYSTEM_BUFFER,
        memory: SharedMemory | None = None,
    ) -> OutboundClient:
        """Return a client of one node, which the caller closes. `memory` as in `OutboundClient`."""
        options = self.options(client_id, request_timeout_ms, receive_buffer_bytes)
        return OutboundClient(
            self._loop,
            self._timers,
            host,
            port,
            options,
            self._security,
            memory=memory,
            open_connection=self._open_connection,
        )

    def options(
        self, client_id: str, request_timeout_ms: int | None = None, receive_buffer_bytes: int = SYSTEM_BUFFER
    ) -> OutboundOptions:
        """Return the options of a client. Without a timeout it is request.timeout.ms."""
        timeout_ms = self._options.request_timeout_ms if request_timeout_ms is None else request_timeout_ms
        return replace(
            self._options,
            client_id=client_id,
            request_timeout_ms=timeout_ms if self._most_timeout_ms is None else min(timeout_ms, self._most_timeout_ms),
            receive_buffer_bytes=receive_buffer_bytes,
        )
