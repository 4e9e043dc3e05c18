"""The requests of one connection, matched with their answers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode, ProtocolError
from protocol.headers import decode_request_header, decode_response_header
from protocol.primitives import int16, int32
from protocol.registry import API_BY_KEY
from protocol.schema import Api, Field, Message, ReadBuffer, Struct

#: The most requests in flight; Kafka's clients have five.
MAX_IN_FLIGHT = 10_000

#: The fields that all request headers have, even those of unknown APIs.
_HEAD = Message("Head", Field("key", int16), Field("version", int16), Field("correlation_id", int32), versions="0")
_CORRELATION_ID = Message("CorrelationId", Field("correlation_id", int32), versions="0")


class Unfollowable(Exception):
    """The bytes of a connection cannot be parsed from here on."""


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request. `api` is None, and the client id is missing, if the API or its version is unknown.

    `body`: the position of the body in the frame.
    """

    key: int
    version: int
    correlation_id: int
    api: Api | None = None
    client_id: str | None = None
    body: int = 0

    @property
    def name(self) -> str:
        """Return the API's name, or its key if the API is unknown."""
        return self.api.name if self.api is not None else f"API key {self.key}"

    def request(self, frame: ReadBuffer) -> Struct | None:
        """Decode the body of the request; None for an unknown API. Raises ProtocolError."""
        return None if self.api is None else self.api.request.decode(self.version, frame, self.body)[0]

    def answer(self, frame: ReadBuffer) -> tuple[Struct, int] | None:
        """Decode the answer; return its body and version, None for an unknown API. Raises ProtocolError.

        A broker answers an ApiVersions request of an unsupported version in v0 (KIP-511).
        """
        if self.api is None:
            return None
        _, position = decode_response_header(self.api, self.version, frame)
        version = self.version
        if self.key == ApiKey.API_VERSIONS and frame[position : position + 2] == _UNSUPPORTED:
            version = 0
        return self.api.response.decode(version, frame, position)[0], version


_UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


def read_request(frame: ReadBuffer) -> PendingRequest:
    """Decode the header of a request. Raises ProtocolError."""
    head, _ = _HEAD.decode(0, frame)
    api = API_BY_KEY.find(head.key)
    if api is None or head.version not in api.versions:
        return PendingRequest(head.key, head.version, head.correlation_id)
    header = decode_request_header(frame)
    return PendingRequest(head.key, head.version, head.correlation_id, api, header.client_id, header.position)


class Conversation:
    """The requests of a connection that are in flight."""

    def __init__(self) -> None:
        self._waiting: deque[PendingRequest] = deque()

    @property
    def waiting(self) -> int:
        """Return the number of requests in flight."""
        return len(self._waiting)

    @property
    def next_due(self) -> PendingRequest:
        """Return the oldest request in flight; there must be one."""
        return self._waiting[0]

    def note_request(self, frame: ReadBuffer) -> PendingRequest:
        """Process a request frame. Raises Unfollowable."""
        try:
            pending = read_request(frame)
            request = pending.request(frame) if pending.key == ApiKey.PRODUCE else None
        except ProtocolError as error:
            raise Unfollowable(f"malformed request: {error}") from None
        if pending.key == ApiKey.SASL_HANDSHAKE and pending.version == 0:
            raise Unfollowable("raw SASL bytes follow SaslHandshake v0; clients since Kafka 1.0 use v1")
        if request is None or request.acks != 0:  # a request with acks=0 has no answer
            self._waiting.append(pending)
            if len(self._waiting) > MAX_IN_FLIGHT:
                raise Unfollowable(f"more than {MAX_IN_FLIGHT} requests wait for their answers")
        return pending

    def note_answer(self, frame: ReadBuffer) -> PendingRequest:
        """Process an answer frame; return its request. Raises Unfollowable."""
        try:
            head, _ = _CORRELATION_ID.decode(0, frame)
        except ProtocolError as error:
            raise Unfollowable(f"malformed answer: {error}") from None
        if not self._waiting or self._waiting[0].correlation_id != head.correlation_id:
            raise Unfollowable(f"an answer with the unexpected correlation id {head.correlation_id}")
        return self._waiting.popleft()
