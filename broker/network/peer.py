"""Who is at the other end of a connection, and by which way it came."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.requests.context import Authenticator


class Peer:
    """What handlers may look at.

    Attributes:
        client_host, client_port: where it is.
        local_host, local_port: the address that it used.
        listener_name, security_protocol: of the listener that let it in.
        principal: who it is, such as User:alice.
        authenticator: where clients say who they are by SASL.
        token_authenticated: whether it has come by a delegation token.
        client_software_name, client_software_version: as it says itself; "unknown", as Kafka calls clients older than
            KIP-511, if it does not.
    """

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
        """Whether it has shown who it is, or need not."""
        return self.authenticator is None or self.authenticator.admitted

    def __repr__(self) -> str:
        return f"{self.client_host}:{self.client_port} on {self.listener_name}"
