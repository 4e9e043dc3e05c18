"""A connection to a broker: requests, and their responses in the same order."""

from __future__ import annotations

import socket
from typing import Any

from client.connection import Connection as ClientConnection
from client.errors import ClientError
from protocol.client_session import PendingRequest
from protocol.error_codes import UnsupportedVersion
from protocol.schema import Api, Struct
from pybroker.isolated.access import OPEN, Access
from pybroker.source.errors import AccessDenied, BrokerFailed

_CLIENT_ID = "pybroker-reader"


class ConnectionFailed(BrokerFailed):
    """The connection failed: a retry, or another broker, may help."""


class Connection:
    """A connection, and the API versions of its broker. Errors: ConnectionFailed, BrokerFailed."""

    def __init__(self, host: str, port: int, *, timeout_s: float, access: Access = OPEN) -> None:
        """Connect and authenticate. Also raises AccessDenied."""
        self.address = f"{host}:{port}"
        self._access = access

        def secure(plain: socket.socket) -> socket.socket:
            return access.secured(plain, host, self.address)

        try:
            self._client = ClientConnection(host, port, timeout_s=timeout_s, client_id=_CLIENT_ID, secure=secure)
        except ClientError as error:
            raise self._failed(error) from None
        try:
            self._versions = self._client.versions()
            access.log_in(self.call, self.address)
        except ClientError as error:
            self.close()
            raise self._failed(error) from None
        except BaseException:
            self.close()
            raise

    @property
    def is_broken(self) -> bool:
        """Return whether the connection has failed."""
        return self._client.is_broken

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def version(self, api: Api, newest: int) -> int:
        """Return the newest version of an API that both sides have, up to `newest`."""
        try:
            return self._versions.newest(api, newest)
        except UnsupportedVersion as error:
            raise BrokerFailed(f"{self.address}: {error}") from None

    def call(self, api: Api, newest: int, request: Struct | None = None, **fields: Any) -> tuple[Struct, int]:
        """Send a request in the newest version up to `newest`. Return the response, and the version."""
        pending = self.ask(api, newest, request, **fields)
        return self.answer(pending), pending.version

    def ask(self, api: Api, newest: int, request: Struct | None = None, **fields: Any) -> PendingRequest:
        """Send a request, as `call` does, without waiting for the response."""
        version = self.version(api, newest)
        try:
            return self._client.send(api, version, request, **fields)
        except ClientError as error:
            raise self._failed(error) from None

    def answer(self, pending: PendingRequest) -> Struct:
        """Return the response to a request, the oldest one without a response."""
        try:
            response = self._client.receive()
        except ClientError as error:
            raise self._failed(error) from None
        assert response.request == pending
        return response.fields

    def _failed(self, error: ClientError) -> BrokerFailed | AccessDenied:
        """Return the error for callers. A rejection of a certificate may arrive after the TLS handshake."""
        denied = self._access.failed(error.cause, self.address) if isinstance(error.cause, OSError) else None
        return denied or ConnectionFailed(f"{self.address}: {error.cause}")
