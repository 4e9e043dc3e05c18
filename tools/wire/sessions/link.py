"""The tools' connections to brokers: those of `client/`, with errors that end a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from client.connection import Connection
from client.errors import ClientError, ConnectionLost
from protocol.client_session import PendingRequest, Response
from protocol.framing import frame
from protocol.schema import Api, Struct
from tools.errors import OfflineError
from tools.wire.sessions.addresses import Address
from tools.wire.sessions.proxy import MAX_FRAME_BYTES


class LinkBroken(OfflineError):
    """The connection failed or was lost, or a response timed out. `is_closed`: the broker closed it."""

    def __init__(self, what: str, is_closed: bool = False) -> None:
        super().__init__(what)
        self.is_closed = is_closed


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise LinkBroken(str(error), isinstance(error, ConnectionLost) and error.is_closed) from None


class Link:
    """A connection to a broker. Methods raise LinkBroken, after which the link is unusable."""

    def __init__(self, address: Address, timeout_s: float, client_id: str | None = None) -> None:
        self.address = address
        with _errors():
            self._connection = Connection(
                *address, timeout_s=timeout_s, client_id=client_id, max_frame_bytes=MAX_FRAME_BYTES
            )

    def send(self, data: bytes) -> None:
        """Send a frame, given without its size."""
        with _errors():
            self._connection.send_frame(frame(data))

    def receive(self) -> bytes:
        """Receive the next frame, and return it without its size."""
        with _errors():
            return bytes(self._connection.receive_frame())

    def ask(self, api: Api, version: int, request: Struct) -> tuple[PendingRequest, bytes]:
        """Send a request. Return it, and its frame with the size."""
        pending, data = self._connection.session.encode(api, version, request)
        with _errors():
            self._connection.send_frame(data)
        self._connection.session.expect(pending)
        return pending, data

    def answer(self) -> Response:
        """Receive the response to the oldest request. Also raises ProtocolError for bytes that are no response."""
        with _errors():
            body = self._connection.receive_frame()
        return self._connection.session.decode(bytes(body))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
