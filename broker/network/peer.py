"""The client at the other end of a connection, and the listener that accepted it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.requests.context import Authenticator


class Peer:
    """The attributes of a connection that handlers may use.

    Attributes:
        client_host, client_port: the client's address.
        local_host, local_port: the address that the client connected to.
        listener_name, security_protocol: of the listener that accepted it.
        principal: the authenticated user, such as User:alice.
        authenticator: the SASL authentication, if the listener has one.
        token_authenticated: whether the client has authenticated by a delegation token.
        client_software_name, client_software_version: as the client says; "unknown", as in Kafka for clients older
            than KIP-511, if it does not.
    """

    is_forwarded = False

    __slots__ = (
        "authenticator",
        "client_host",
        "client_port",
        "client_software_name",
        "client_software_version",
        "listener_name",
        "local_host",
        "local_port",
        "principal",
        "security_protocol",
        "token_authenticated",
    )

    def __init__(
        self,
        listener_name: str,
        security_protocol: str,
        client_address: tuple[str, int],
        local_address: tuple[str, int],
        principal: str,
    ) -> None:
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        self.client_host, self.client_port = client_address
        self.local_host, self.local_port = local_address
        self.principal = principal
        self.authenticator: Authenticator | None = None
        self.token_authenticated = False
        self.client_software_name = "unknown"
        self.client_software_version = "unknown"

    @property
    def is_admitted(self) -> bool:
        """Whether the client has authenticated, or need not."""
        return self.authenticator is None or self.authenticator.admitted

    def __repr__(self) -> str:
        return f"{self.client_host}:{self.client_port} on {self.listener_name}"
