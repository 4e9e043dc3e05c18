"""Errors of the broker's requests to other brokers."""

from __future__ import annotations


class OutboundError(Exception):
    """A request has no response. It may have been executed."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address


class ConnectionFailed(OutboundError):
    """The connection cannot be established, or was lost."""


class LoginFailed(ConnectionFailed):
    """The other broker rejects the credentials. A retry does not help before the configuration changes."""


class RequestTimedOut(OutboundError):
    """No response arrived within request.timeout.ms."""

    def __init__(self, address: str, api: str, timeout_ms: int) -> None:
        super().__init__(address, f"{api}: no response within {timeout_ms} ms")


class ClientClosed(OutboundError):
    """The client was closed."""

    def __init__(self, address: str) -> None:
        super().__init__(address, "the client is closed")
