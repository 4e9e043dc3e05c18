"""A blocking client connection to a broker that sends and receives frames."""

from __future__ import annotations

import socket

from protocol.error_codes import ProtocolError
from protocol.framing import SIZE_BYTES, frame_size
from tools.errors import OfflineError
from tools.wire.sessions.addresses import Address
from tools.wire.sessions.proxy import MAX_FRAME_BYTES

_PIECE = 1 << 20


class LinkBroken(OfflineError):
    """The connection failed or was lost, or an answer timed out. `is_closed`: the broker closed it."""

    def __init__(self, what: str, is_closed: bool = False) -> None:
        super().__init__(what)
        self.is_closed = is_closed


class Link:
    """A socket to a broker. Methods raise LinkBroken, after which the link is unusable."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.address = address
        try:
            self._socket = socket.create_connection(address, timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise LinkBroken(f"{address}: {error.strerror or error}") from None

    def send(self, frame: bytes) -> None:
        """Send a frame, given without its size."""
        try:
            self._socket.sendall(len(frame).to_bytes(SIZE_BYTES, "big") + frame)
        except OSError as error:
            raise LinkBroken(f"{self.address}: the request cannot be sent: {error.strerror or error}") from None

    def receive(self) -> bytes:
        """Receive the next frame, and return it without its size."""
        try:
            head = self._exactly(SIZE_BYTES)
            size = frame_size(head, 0, SIZE_BYTES, MAX_FRAME_BYTES)
            assert size is not None
            return bytes(self._exactly(size))
        except TimeoutError:
            raise LinkBroken(f"{self.address}: no answer in time") from None
        except OSError as error:
            is_closed = isinstance(error, ConnectionError)
            raise LinkBroken(f"{self.address}: {error.strerror or error}", is_closed) from None
        except ProtocolError as error:
            raise LinkBroken(f"{self.address}: {error}") from None

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _exactly(self, size: int) -> bytearray:
        received = bytearray()
        while len(received) < size:
            piece = self._socket.recv(min(size - len(received), _PIECE))
            if not piece:
                raise ConnectionResetError(0, "the connection was closed")
            received += piece
        return received
