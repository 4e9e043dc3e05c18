"""The limits of an outbound client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.network.outbound_connection import SYSTEM_BUFFER

if TYPE_CHECKING:
    from config import BrokerConfig


@dataclass(frozen=True, slots=True)
class OutboundOptions:
    """Limits of a client, in milliseconds and bytes. The names are those of Apache Kafka's client configuration."""

    client_id: str
    request_timeout_ms: int = 30_000
    connection_setup_timeout_ms: int = 10_000
    connection_setup_timeout_max_ms: int = 30_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    max_frame_bytes: int = 1 << 30
    receive_buffer_bytes: int = SYSTEM_BUFFER

    @classmethod
    def from_config(cls, config: BrokerConfig, client_id: str) -> OutboundOptions:
        """Return the broker's limits. Kafka has no keys for the back-off of its brokers."""
        return cls(
            client_id,
            config.get_int("request.timeout.ms"),
            config.get_int("socket.connection.setup.timeout.ms"),
            config.get_int("socket.connection.setup.timeout.max.ms"),
        )
