"""Errors of the blocking client."""

from __future__ import annotations

from protocol.error_codes import ProtocolError


class ClientError(Exception):
    """A connection cannot be established, or failed. `cause` is the error of the socket or the protocol."""

    def __init__(self, address: str, cause: OSError | ProtocolError, doing: str = "") -> None:
        self.address = address
        self.cause = cause
        reason = (cause.strerror if isinstance(cause, OSError) else None) or str(cause)
        super().__init__(f"{address}: {doing}{reason}")


class ConnectFailed(ClientError):
    """The broker cannot be reached, or TLS cannot be established."""


class RequestNotSent(ClientError):
    """The connection failed while a request was sent."""

    def __init__(self, address: str, cause: OSError) -> None:
        super().__init__(address, cause, "the request cannot be sent: ")


class ConnectionLost(ClientError):
    """The connection failed while a response was expected."""

    @property
    def is_closed(self) -> bool:
        """Return whether the broker closed the connection."""
        return isinstance(self.cause, ConnectionError)


class NoResponse(ConnectionLost):
    """The deadline passed before the response arrived."""

    def __init__(self, address: str, cause: TimeoutError) -> None:
        super().__init__(address, TimeoutError(0, "no answer in time"))
        self.cause = cause


class BadResponse(ClientError):
    """The broker sent bytes that are no response to the request."""
