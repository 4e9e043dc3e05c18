"""A blocking connection to a broker: raw frames, requests and responses, pipelined if the caller wants."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from client.errors import BadResponse, ClientError, ConnectFailed, ConnectionLost, NoResponse, RequestNotSent
from protocol.client_session import ClientSession, PendingRequest, Response, SupportedVersions
from protocol.error_codes import ProtocolError
from protocol.framing import SIZE_BYTES, frame_size
from protocol.messages.api_versions import API_VERSIONS
from protocol.schema import Api, Struct

#: The initial size of a buffer, in bytes. It grows as bytes arrive, so that a wrong size allocates nothing.
_ROOM_BYTES = 9 << 20
#: ApiVersions v0: every broker has it.
_API_VERSIONS = 0

Secure = Callable[[socket.socket], socket.socket]
"""Wrap a connected socket in TLS. Raises OSError."""


class Connection:
    """A connection to one broker. After a ClientError it `is_broken` and cannot be used again.

    Args:
        timeout_s: the deadline of connecting, of sending a request, and of receiving a response, in seconds. It is the
            timeout of the `socket`.
        secure: establishes TLS.
        source: the local address; by default the system chooses one.
        max_frame_bytes: a larger response is an error.

    Raises ConnectFailed.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        timeout_s: float,
        client_id: str | None = None,
        secure: Secure | None = None,
        source: str = "",
        max_frame_bytes: int = 1 << 30,
    ) -> None:
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.is_broken = False
        self.session = ClientSession(client_id)
        self._max_frame_bytes = max_frame_bytes
        self._versions: SupportedVersions | None = None
        try:
            self.socket = socket.create_connection((host, port), timeout_s, (source, 0) if source else None)
        except OSError as error:
            raise ConnectFailed(self.address, error) from None
        try:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if secure is not None:
                self.socket = secure(self.socket)
        except OSError as error:
            self.close()
            raise ConnectFailed(self.address, error) from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    # -- requests ------------------------------------------------------------------------------------------------------

    def versions(self) -> SupportedVersions:
        """Return the API versions of the broker, asked at the first call. Raises ClientError."""
        if self._versions is None:
            response = self.call(API_VERSIONS, _API_VERSIONS)
            try:
                self._versions = SupportedVersions.from_response(response)
            except ProtocolError as error:
                raise self._broken(BadResponse(self.address, error)) from None
        return self._versions

    def call(self, api: Api, version: int, request: Struct | None = None, **fields: Any) -> Struct:
        """Send a request, given as a value or by its fields, and return the response. Raises ClientError."""
        self.send(api, version, request, **fields)
        return self.receive().fields

    def send(
        self, api: Api, version: int, request: Struct | None = None, *, is_answered: bool = True, **fields: Any
    ) -> PendingRequest:
        """Send a request, and do not wait. `is_answered=False`: no response will come (acks=0). Raises ClientError."""
        pending, data = self.session.encode(api, version, api.request(**fields) if request is None else request)
        self.send_frame(data)
        if is_answered:
            self.session.expect(pending)
        return pending

    def receive(self) -> Response:
        """Return the response to the oldest request. Raises ClientError."""
        body = self.receive_frame()
        try:
            return self.session.decode(body)
        except ProtocolError as error:
            raise self._broken(BadResponse(self.address, error)) from None

    # -- frames --------------------------------------------------------------------------------------------------------

    def send_frame(self, data: bytes | bytearray) -> None:
        """Send a frame, given with its size. Raises RequestNotSent."""
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise self._broken(RequestNotSent(self.address, error)) from None

    def receive_frame(self) -> memoryview:
        """Return the next frame, without its size. Its memory is not used again. Raises ClientError."""
        timeout_s = self.socket.gettimeout()
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            head = self._exactly(SIZE_BYTES, deadline_s)
            size = frame_size(head, 0, SIZE_BYTES, self._max_frame_bytes)
            assert size is not None
            body = memoryview(self._exactly(size, deadline_s))
        except TimeoutError as error:
            raise self._broken(NoResponse(self.address, error)) from None
        except OSError as error:
            raise self._broken(ConnectionLost(self.address, error)) from None
        except ProtocolError as error:
            raise self._broken(BadResponse(self.address, error)) from None
        self.socket.settimeout(timeout_s)
        return body

    def receive_into(self, buffer: bytearray) -> memoryview:
        """Return the next frame with its size, in this buffer, for benchmarks. Raises ConnectionLost.

        It takes as few system calls as possible: no other response may be due, and the frame has to fit the buffer.
        """
        view, received, size = memoryview(buffer), 0, SIZE_BYTES
        try:
            while received < size:
                count = self.socket.recv_into(view[received:])
                if not count:
                    raise _closed()
                received += count
                if received >= SIZE_BYTES:
                    size = SIZE_BYTES + int.from_bytes(view[:SIZE_BYTES], "big")
        except OSError as error:
            raise self._broken(ConnectionLost(self.address, error)) from None
        return view[:size]

    def _exactly(self, size: int, deadline_s: float | None) -> bytearray:
        received, filled = bytearray(min(size, _ROOM_BYTES)), 0
        while filled < size:
            if filled == len(received):
                received += bytes(min(size - filled, len(received)))
            count = self.socket.recv_into(memoryview(received)[filled:])
            if not count:
                raise _closed()
            filled += count
            if filled < size and deadline_s is not None:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError("timed out")
                self.socket.settimeout(left_s)
        return received

    def _broken(self, error: ClientError) -> ClientError:
        self.is_broken = True
        return error


def _closed() -> ConnectionResetError:
    return ConnectionResetError("the connection was closed")
