"""One connection to a broker: a request, then its answer."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from protocol.errors import ErrorCode, ProtocolError
from protocol.framing import SIZE_BYTES, frame, frame_size
from protocol.headers import decode_response_header, encode_request_header
from protocol.messages.api_versions import API_VERSIONS
from protocol.schema import Api, Struct
from pybroker.source.errors import BrokerFailed

#: The largest answer that is read: a Fetch asks for less, and an oversized first batch comes on top.
_MOST_BYTES = 1 << 30
_CLIENT_ID = "pybroker-reader"


class ConnectionFailed(BrokerFailed):
    """No connection, or one that has broken: another try, or another broker, may help."""


class Connection:
    """A socket, and the versions that the broker at its other end serves. Errors: ConnectionFailed, BrokerFailed."""

    def __init__(self, host: str, port: int, *, timeout_s: float, tls: ssl.SSLContext | None = None) -> None:
        self.address = f"{host}:{port}"
        self.is_broken = False
        self._correlation_id = 0
        try:
            plain = socket.create_connection((host, port), timeout_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
        except OSError as error:
            raise ConnectionFailed(f"{self.address}: {error}") from None
        try:
            self._versions = self._ask_versions()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def version(self, api: Api, most: int) -> int:
        """The newest version of an API that both sides have, up to `most`."""
        served = self._versions.get(api.key, (0, -1))
        version = min(most, served[1])
        if version < served[0]:
            raise BrokerFailed(f"{self.address} serves {api.name} in versions {served[0]} to {served[1]}, not {most}")
        return version

    def call(self, api: Api, most: int, **fields: Any) -> tuple[Struct, int]:
        """Send a request in the newest version up to `most`; its answer, and the version."""
        version = self.version(api, most)
        return self._exchange(api, version, api.request(**fields)), version

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        answer = self._exchange(API_VERSIONS, 0, API_VERSIONS.request())
        if answer.error_code:
            raise BrokerFailed(f"{self.address}: {ErrorCode(answer.error_code).text}")
        return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def _exchange(self, api: Api, version: int, request: Struct) -> Struct:
        self._correlation_id += 1
        header = encode_request_header(api, version, self._correlation_id, _CLIENT_ID)
        try:
            self._socket.sendall(frame(header, api.request.encode(version, request)))
            body = self._receive()
            correlation_id, position = decode_response_header(api, version, body)
            if correlation_id != self._correlation_id:
                raise ProtocolError(f"answer {correlation_id} where {self._correlation_id} was due")
            answer, _ = api.response.decode(version, body, position)
        except (OSError, ProtocolError) as error:
            self.is_broken = True
            raise ConnectionFailed(f"{self.address}: {error}") from None
        return answer

    def _receive(self) -> memoryview:
        head = self._exactly(SIZE_BYTES)
        size = frame_size(head, 0, len(head), _MOST_BYTES)
        assert size is not None
        return memoryview(self._exactly(size))

    def _exactly(self, size: int) -> bytearray:
        received = bytearray()
        while len(received) < size:
            piece = self._socket.recv(min(size - len(received), 1 << 20))
            if not piece:
                raise ConnectionResetError("the broker has closed the connection")
            received += piece
        return received
