"""The blocking client for tests: it checks that all bytes of a response are used, and encoded as they would be here."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from client.connection import Connection, Secure
from client.errors import ClientError, ConnectionLost
from protocol.client_session import PendingRequest, Response
from protocol.messages.api_versions import API_VERSIONS
from protocol.schema import Api, Struct
from tests.support.plain_values import request_of


class Closed(Exception):
    """The broker has closed the connection."""


class WireClient:
    """One connection, from the address `source` if one is given.

    with WireClient("127.0.0.1", port) as client:
        answer = client.call(API_VERSIONS, 0)
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str | None = "test",
        timeout_s: float = 60,
        source: str = "",
        secure: Secure | None = None,
    ) -> None:
        try:
            self._connection = Connection(
                host, port, timeout_s=timeout_s, client_id=client_id, source=source, secure=secure
            )
        except ClientError as error:
            raise error.cause from None
        self.socket = self._connection.socket
        self.session = self._connection.session

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @property
    def client_id(self) -> str | None:
        return self.session.client_id

    @client_id.setter
    def client_id(self, client_id: str | None) -> None:
        self.session.client_id = client_id

    def call(self, api: Api, version: int, request: Struct | Mapping[str, Any] | None = None, **fields: Any) -> Struct:
        """Send a request, given as a value or by its fields (`request_of`); return its response. Raises Closed."""
        self.send(api, version, request, **fields)
        return self.receive()

    def send(
        self,
        api: Api,
        version: int,
        request: Struct | Mapping[str, Any] | None = None,
        *,
        answered: bool = True,
        **fields: Any,
    ) -> int:
        """Send a request; return its correlation id. `answered=False`: no response will come (acks=0)."""
        pending, data = self._encoded(api, version, request, fields)
        if answered:
            self.session.expect(pending)
        self.socket.sendall(data)
        return pending.correlation_id

    def request_frame(
        self, api: Api, version: int, request: Struct | Mapping[str, Any] | None = None, **fields: Any
    ) -> bytes:
        """Return the bytes of a request with the next correlation id, without sending them."""
        return self._encoded(api, version, request, fields)[1]

    def expect(self, api: Api, version: int, correlation_id: int) -> None:
        """Expect a response to bytes that the test sends itself."""
        self.session.expect(PendingRequest(api, version, correlation_id))

    def receive(self) -> Struct:
        """Return the next response. Raises Closed."""
        response = self.receive_unchecked()
        request, body = response.request, bytes(response.body)
        assert not response.extra_bytes, f"{response.extra_bytes} bytes left over in {request.name}"
        encoded = request.api.response.encode(request.version, response.fields)
        assert encoded == body[response.start :], f"{request.name} is encoded in other bytes than the broker's"
        return response.fields

    def receive_unchecked(self) -> Response:
        """Return the next response, without the checks of `receive`. Raises Closed."""
        return self.session.decode(self.receive_frame())

    def receive_frame(self) -> bytes:
        """Return the bytes of the next frame, without its size. Raises Closed."""
        try:
            return bytes(self._connection.receive_frame())
        except ConnectionLost as error:
            if error.is_closed:
                raise Closed(str(error)) from None
            raise error.cause from None

    def is_closed(self, timeout_s: float = 60) -> bool:
        """Return whether the broker closes the connection within the time, without another byte."""
        self.socket.settimeout(timeout_s)
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def _encoded(
        self, api: Api, version: int, request: Struct | Mapping[str, Any] | None, fields: Mapping[str, Any]
    ) -> tuple[PendingRequest, bytes]:
        if not isinstance(request, Struct):
            request = request_of(api, {**(request or {}), **fields})
        return self.session.encode(api, version, request)


def served_versions(client: WireClient) -> dict[int, range]:
    """API key -> versions, as the broker says."""
    answer = client.call(API_VERSIONS, 3, client_software_name="test", client_software_version="0")
    return {api.api_key: range(api.min_version, api.max_version + 1) for api in answer.api_keys}
