"""The context of a request for its handler: the client's connection, the API and its version, the quotas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from protocol.schema import Api, Struct


class CloseConnection(Exception):
    """Close the connection instead of answering. A handler may raise it too, for example for a failed acks=0."""


class PartlyServed(Exception):
    """Raised by a fast path that has begun to serve a request: the handler has to go on with it.

    The handler finds `progress` in its context; what it means is a matter between both.
    """

    def __init__(self, progress: object) -> None:
        super().__init__()
        self.progress = progress


class Authenticator(Protocol):
    """The SASL exchange of a connection."""

    @property
    def admitted(self) -> bool:
        """Whether the client is authenticated."""

    def close(self) -> None:
        """End the exchange with the connection."""

    def reauthenticate(self, version: int, mechanism: str) -> Struct | None:
        """Begin another exchange on the same connection (KIP-368); None where the client may not."""


class ClientConnection(Protocol):
    """The connection of a client, as handlers see it. Another process may hold its socket."""

    client_host: str
    client_port: int
    #: The address of this broker that the client used.
    local_host: str
    local_port: int
    listener_name: str
    security_protocol: str
    #: Such as User:alice.
    principal: str
    #: Whether the client is authenticated by a delegation token.
    token_authenticated: bool
    client_software_name: str
    client_software_version: str
    #: Whether a broker has checked the requests of its client and forwarded them.
    is_forwarded: bool
    #: Called once when the connection is closed.
    on_close: Callable[[], None] | None

    @property
    def authenticator(self) -> Authenticator | None:
        """None on listeners without SASL."""

    @property
    def is_admitted(self) -> bool:
        """Whether the client is authenticated, or need not be."""

    @property
    def is_closed(self) -> bool:
        """Whether the client or the broker has closed the connection."""

    def throttle(self, wait_ms: int) -> None:
        """Start no request of this connection for `wait_ms` milliseconds."""


class RequestCharge(Protocol):
    """Counts a request against its client's quotas (broker/access/quotas/throttling.py)."""

    def pause(self) -> None:
        """Pause the measured time of the request, which waits."""

    def resume(self) -> None:
        """Resume the measured time."""

    def most_fetched(self, max_bytes: int) -> int:
        """Return how many of `max_bytes` bytes may be fetched at once."""

    def allows_fetched(self, size: int) -> bool:
        """Return whether `size` bytes of records may be sent now. They are counted only if so."""

    def count_fetched(self, size: int) -> None:
        """Count `size` bytes of records, which are sent in any case."""

    def admit_mutations(self, partitions: int, *, strict: bool) -> None:
        """Count partitions that are created or deleted. Raises Refused if `strict` and the quota is used up."""

    def settle(self, reply: Any) -> Any:
        """Count the request and throttle its client. Returns the answer with its throttle time."""


class RequestContext:
    """One request, for as long as it is being answered.

    `charge` counts what the request takes of its client's quotas; None for a client without quotas. `progress` is
    that of a fast path that has begun to serve the request (PartlyServed); None for all others.
    """

    __slots__ = ("api", "api_version", "charge", "client_id", "connection", "correlation_id", "progress")

    def __init__(
        self,
        connection: ClientConnection,
        api: Api,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        charge: RequestCharge | None = None,
    ) -> None:
        self.connection = connection
        self.api = api
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.charge = charge
        self.progress: object = None
