"""What goes over one connection: requests, and which answer is to which of them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from protocol.api_keys import ApiKey
from protocol.errors import ErrorCode, ProtocolError
from protocol.headers import decode_request_header, decode_response_header
from protocol.primitives import int16, int32
from protocol.registry import API_BY_KEY
from protocol.schema import Api, Field, Message, ReadBuffer, Struct

#: Requests that may wait for their answers: Kafka's clients have five.
MAX_IN_FLIGHT = 10_000

#: What all headers of requests have in common, also those of APIs that nobody knows.
_HEAD = Message("Head", Field("key", int16), Field("version", int16), Field("correlation_id", int32), versions="0")
_CORRELATION_ID = Message("CorrelationId", Field("correlation_id", int32), versions="0")


class Unfollowable(Exception):
    """From here on it cannot be said what the bytes of a connection are."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request. `api` is None, and there is no client id, where it, or its version, is none that is known.

    `body`: where it begins in the frame.
    """

    key: int
    version: int
    correlation_id: int
    api: Api | None = None
    client_id: str | None = None
    body: int = 0

    @property
    def name(self) -> str:
        """The API's name, or its number."""
        return self.api.name if self.api is not None else f"API key {self.key}"

    def request(self, frame: ReadBuffer) -> Struct | None:
        """The body; None where nobody knows the API. ProtocolError."""
        return None if self.api is None else self.api.request.decode(self.version, frame, self.body)[0]

    def answer(self, frame: ReadBuffer) -> tuple[Struct, int] | None:
        """The body of the answer, and the version that it is in; None where nobody knows the API. ProtocolError.

        To an ApiVersions request of a version that it does not serve, a broker answers in v0 (KIP-511).
        """
        if self.api is None:
            return None
        _, position = decode_response_header(self.api, self.version, frame)
        version = self.version
        if self.key == ApiKey.API_VERSIONS and frame[position : position + 2] == _UNSUPPORTED:
            version = 0
        return self.api.response.decode(version, frame, position)[0], version


_UNSUPPORTED = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


def read_request(frame: ReadBuffer) -> Asked:
    """The header of a request. ProtocolError: it is none."""
    head, _ = _HEAD.decode(0, frame)
    api = API_BY_KEY.find(head.key)
    if api is None or head.version not in api.versions:
        return Asked(head.key, head.version, head.correlation_id)
    header = decode_request_header(frame)
    return Asked(head.key, head.version, head.correlation_id, api, header.client_id, header.position)


class Conversation:
    """The requests of a connection that wait for their answers."""

    def __init__(self) -> None:
        self._waiting: deque[Asked] = deque()

    @property
    def waiting(self) -> int:
        """How many answers are due."""
        return len(self._waiting)

    @property
    def next_due(self) -> Asked:
        """The oldest request that waits; there must be one."""
        return self._waiting[0]

    def asked(self, frame: ReadBuffer) -> Asked:
        """A request goes by. Unfollowable."""
        try:
            asked = read_request(frame)
            request = asked.request(frame) if asked.key == ApiKey.PRODUCE else None
        except ProtocolError as error:
            raise Unfollowable(f"what should be a request is none: {error}") from None
        if asked.key == ApiKey.SASL_HANDSHAKE and asked.version == 0:
            raise Unfollowable("after SaslHandshake v0 come bytes that are no requests: clients since 1.0 have v1")
        if request is None or request.acks != 0:  # to acks=0 there is no answer
            self._waiting.append(asked)
            if len(self._waiting) > MAX_IN_FLIGHT:
                raise Unfollowable(f"more than {MAX_IN_FLIGHT} requests wait for their answers")
        return asked

    def answered(self, frame: ReadBuffer) -> Asked:
        """An answer goes by: what it is to. Unfollowable."""
        try:
            head, _ = _CORRELATION_ID.decode(0, frame)
        except ProtocolError as error:
            raise Unfollowable(f"what should be an answer is none: {error}") from None
        if not self._waiting or self._waiting[0].correlation_id != head.correlation_id:
            raise Unfollowable(f"an answer with correlation id {head.correlation_id}, which is not due")
        return self._waiting.popleft()
