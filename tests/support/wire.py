"""A raw client for tests: frames out, frames in, through the schemas. No retries, no metadata, no opinion."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from protocol.framing import frame
from protocol.headers import decode_response_header, encode_request_header
from protocol.messages.api_versions import API_VERSIONS
from protocol.schema import Api, Struct


class Closed(Exception):
    """The broker has closed the connection."""


class WireClient:
    """One connection, from the address `source` if one is given.

    Requests may be sent ahead of their answers; answers are read in order.

    with WireClient("127.0.0.1", port) as client:
        answer = client.call(API_VERSIONS, 0)
    """

    def __init__(
        self, host: str, port: int, *, client_id: str | None = "test", timeout_s: float = 60, source: str = ""
    ) -> None:
        self.socket = socket.create_connection((host, port), timeout_s, (source, 0) if source else None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id = client_id
        self._correlation_id = 0
        self._expected: list[tuple[Api, int, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def call(self, api: Api, version: int, request: Struct | Mapping[str, Any] | None = None, **fields: Any) -> Struct:
        """Send a request, given as a value or by its fields, and return its answer. Raises Closed."""
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
        """Send a request; returns its correlation id. `answered=False`: no answer will come (acks=0)."""
        data = self.request_frame(api, version, request, **fields)
        if answered:
            self._expected.append((api, version, self._correlation_id))
        self.socket.sendall(data)
        return self._correlation_id

    def request_frame(
        self, api: Api, version: int, request: Struct | Mapping[str, Any] | None = None, **fields: Any
    ) -> bytes:
        """The bytes of a request with the next correlation id, without sending them."""
        self._correlation_id += 1
        if not isinstance(request, Struct):
            request = api.request(**{**(request or {}), **fields})
        header = encode_request_header(api, version, self._correlation_id, self.client_id)
        return frame(header, api.request.encode(version, request))

    def expect(self, api: Api, version: int, correlation_id: int) -> None:
        """An answer to bytes that were sent by hand is to come."""
        self._expected.append((api, version, correlation_id))

    def receive(self) -> Struct:
        """The next answer. Its correlation id has to be that of its request, and all its bytes have to be used."""
        api, version, correlation_id = self._expected.pop(0)
        body = self.receive_frame()
        received_id, position = decode_response_header(api, version, body)
        assert received_id == correlation_id, f"answer {received_id} where {correlation_id} was due"
        answer, end = api.response.decode(version, body, position)
        assert end == len(body), f"{len(body) - end} bytes left over in {api.name} v{version}"
        encoded = api.response.encode(version, answer)
        assert encoded == body[position:], f"{api.name} v{version} is encoded in other bytes than the broker's"
        return answer

    def receive_frame(self) -> bytes:
        """The bytes of the next frame, without its size. Raises Closed."""
        (size,) = struct.unpack(">i", self.receive_exactly(4))
        return self.receive_exactly(size)

    def receive_exactly(self, size: int) -> bytes:
        """So many bytes. Raises Closed."""
        received = bytearray()
        while len(received) < size:
            try:
                piece = self.socket.recv(min(size - len(received), 1 << 20))
            except ConnectionError as error:
                raise Closed(str(error)) from None
            if not piece:
                raise Closed("end of stream")
            received += piece
        return bytes(received)

    def is_closed(self, timeout_s: float = 60) -> bool:
        """Whether the broker closes the connection, within the time and without a byte more."""
        self.socket.settimeout(timeout_s)
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False


def served_versions(client: WireClient) -> dict[int, range]:
    """API key -> versions, as the broker says."""
    answer = client.call(API_VERSIONS, 3, client_software_name="test", client_software_version="0")
    return {api.api_key: range(api.min_version, api.max_version + 1) for api in answer.api_keys}
