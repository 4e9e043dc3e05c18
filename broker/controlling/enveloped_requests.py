"""Requests of clients that brokers forward in envelopes (KIP-590)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from broker.requests.context import ClientConnection, CloseConnection
from broker.requests.dispatcher import Waiting
from broker.requests.forwardable import FORWARDABLE
from protocol.error_codes import ErrorCode, ProtocolError
from protocol.framing import SIZE_BYTES
from protocol.headers import decode_request_header
from protocol.messages.envelope import ENVELOPE
from protocol.schema import Chunk, Struct
from runtime.deferred import Deferred

if TYPE_CHECKING:
    from broker.requests.dispatcher import Dispatcher


class EnvelopedConnection:
    """The parts that handlers may use of a connection between a client and the broker that has forwarded a request."""

    is_closed = False
    authenticator = None
    is_forwarded = True
    is_admitted = True  # brokers forward no request before that

    def __init__(self, broker: ClientConnection, principal: str, client_host: str, token_authenticated: bool) -> None:
        self.listener_name = broker.listener_name
        self.security_protocol = broker.security_protocol
        self.client_host, self.client_port = client_host, 0
        self.local_host, self.local_port = broker.local_host, broker.local_port
        self.principal = principal
        self.token_authenticated = token_authenticated
        self.client_software_name = self.client_software_version = ""
        self.on_close: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"{self.client_host} by way of a broker"

    def throttle(self, wait_ms: int) -> None:
        """Do nothing: the broker mutes its client for the throttle time in the answer."""


class EnvelopedRequests:
    """Serves requests in envelopes with the dispatcher of the controller listener."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def serve(
        self, broker: ClientConnection, frame: bytes, principal: str, client_host: str, *, by_token: bool
    ) -> Deferred[Struct]:
        """Resolve to the response of an Envelope request, whose broker is at the other end of a connection."""
        answered: Deferred[Struct] = Deferred(mutes=False)
        code = self._error(frame)
        if code is not ErrorCode.NONE:
            answered.resolve(ENVELOPE.response(error_code=code))
            return answered
        enveloped = EnvelopedConnection(broker, principal, client_host, by_token)
        client: ClientConnection = enveloped

        def take(answer: bytes | list[Chunk] | Waiting | None) -> None:
            if answered.done:  # the broker is gone
                return
            if isinstance(answer, Waiting):
                waiting = answer
                waiting.deferred.add_done_callback(lambda _: attempt(lambda: self._dispatcher.finish(client, waiting)))
            elif answer is None:
                answered.resolve(ENVELOPE.response(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
            else:
                chunks = [answer] if isinstance(answer, bytes) else cast("list[bytes]", answer)
                answered.resolve(ENVELOPE.response(response_data=b"".join(chunks)[SIZE_BYTES:]))

        def attempt(serve: Callable[[], bytes | list[Chunk] | Waiting | None]) -> None:
            try:
                take(serve())
            except ProtocolError:
                answered.resolve(ENVELOPE.response(error_code=ErrorCode.INVALID_REQUEST))
            except CloseConnection:
                answered.resolve(ENVELOPE.response(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))

        attempt(lambda: self._dispatcher.dispatch(client, memoryview(frame)))
        return answered

    def _error(self, frame: bytes) -> ErrorCode:
        """Return why a request is not served; NONE if it is."""
        try:
            header = decode_request_header(frame)
        except (ProtocolError, KeyError):
            return ErrorCode.INVALID_REQUEST
        if header.api_key not in FORWARDABLE:
            return ErrorCode.INVALID_REQUEST
        served = self._dispatcher.served.get(header.api_key)
        if served is None or header.api_version not in served.served:
            return ErrorCode.UNSUPPORTED_VERSION
        return ErrorCode.NONE
