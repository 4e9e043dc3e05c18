"""A connection to a broker: requests, and their responses in the same order."""

from __future__ import annotations

import socket
from typing import Any, NamedTuple

from protocol.error_codes import ErrorCode, ProtocolError
from protocol.framing import SIZE_BYTES, frame, frame_size
from protocol.headers import decode_response_header, encode_request_header
from protocol.messages.api_versions import API_VERSIONS
from protocol.schema import Api, Struct
from pybroker.isolated.access import OPEN, Access
from pybroker.source.errors import AccessDenied, BrokerFailed

#: The largest response: a Fetch asks for less, but its first batch may exceed the limit.
_MOST_BYTES = 1 << 30
#: The initial size of a buffer, in bytes: usually enough for a whole Fetch response.
_ROOM = 9 << 20
_CLIENT_ID = "pybroker-reader"


class ConnectionFailed(BrokerFailed):
    """The connection failed: a retry, or another broker, may help."""


class Asked(NamedTuple):
    """A request that was sent."""

    api: Api
    version: int
    correlation_id: int


class Connection:
    """A socket, and the API versions of its broker. Errors: ConnectionFailed, BrokerFailed."""

    def __init__(self, host: str, port: int, *, timeout_s: float, access: Access = OPEN) -> None:
        """Connect and authenticate. Also raises AccessDenied."""
        self.address = f"{host}:{port}"
        self.is_broken = False
        self._access = access
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise ConnectionFailed(f"{self.address}: {error}") from None
        try:
            self._socket = self._secured(host)
            self._versions = self._ask_versions()
            access.log_in(self.call, self.address)
        except BaseException:
            self.close()
            raise

    def _secured(self, host: str) -> socket.socket:
        try:
            return self._access.secured(self._socket, host, self.address)
        except OSError as error:
            raise ConnectionFailed(f"{self.address}: {error}") from None

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def version(self, api: Api, most: int) -> int:
        """Return the newest version of an API that both sides have, up to `most`."""
        served = self._versions.get(api.key, (0, -1))
        version = min(most, served[1])
        if version < served[0]:
            raise BrokerFailed(f"{self.address} serves {api.name} in versions {served[0]} to {served[1]}, not {most}")
        return version

    def call(self, api: Api, most: int, **fields: Any) -> tuple[Struct, int]:
        """Send a request in the newest version up to `most`. Return the response, and the version."""
        asked = self.ask(api, most, **fields)
        return self.answer(asked), asked.version

    def ask(self, api: Api, most: int, **fields: Any) -> Asked:
        """Send a request, as `call` does, without waiting for the response."""
        version = self.version(api, most)
        return self._ask(api, version, api.request(**fields))

    def answer(self, asked: Asked) -> Struct:
        """Return the response to the oldest request without one."""
        api, version, correlation_id = asked
        try:
            body = self._receive()
            answered, position = decode_response_header(api, version, body)
            if answered != correlation_id:
                raise ProtocolError(f"answer {answered} where {correlation_id} was due")
            answer, _ = api.response.decode(version, body, position)
        except (OSError, ProtocolError) as error:
            raise self._failed(error) from None
        return answer

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        answer = self.answer(self._ask(API_VERSIONS, 0, API_VERSIONS.request()))
        if answer.error_code:
            raise BrokerFailed(f"{self.address}: {ErrorCode(answer.error_code).text}")
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def _ask(self, api: Api, version: int, request: Struct) -> Asked:
        self._correlation_id += 1
        header = encode_request_header(api, version, self._correlation_id, _CLIENT_ID)
        try:
            self._socket.sendall(frame(header, api.request.encode(version, request)))
        except OSError as error:
            raise self._failed(error) from None
        return Asked(api, version, self._correlation_id)

    def _failed(self, error: OSError | ProtocolError) -> BrokerFailed | AccessDenied:
        self.is_broken = True
        denied = self._access.failed(error, self.address) if isinstance(error, OSError) else None
        return denied or ConnectionFailed(f"{self.address}: {error}")

    def _receive(self) -> memoryview:
        head = self._exactly(SIZE_BYTES)
        size = frame_size(head, 0, len(head), _MOST_BYTES)
        assert size is not None
        return memoryview(self._exactly(size))

    def _exactly(self, size: int) -> bytearray:
        """Receive this many bytes. The buffer grows as they arrive, so a wrong size allocates nothing."""
        received, begun = bytearray(min(size, _ROOM)), 0
        while begun < size:
            if begun == len(received):
                received += bytes(min(size - begun, len(received)))
            count = self._socket.recv_into(memoryview(received)[begun:])
            if not count:
                raise ConnectionResetError("the broker has closed the connection")
            begun += count
        return received
