"""A client whose requests and answers are shown with all bytes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from protocol.error_codes import ErrorCode, ProtocolError
from protocol.framing import SIZE_BYTES, frame
from protocol.headers import REQUEST_HEADER, RESPONSE_HEADER
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.schema import Api, Struct
from tools.errors import OfflineError
from tools.wire.sessions.addresses import Address
from tools.wire.sessions.link import Link
from tools.wire.sessions.plain import plain
from tools.wire.sessions.player import PASSING, error_codes
from tools.wire.traces.fields import FieldSpan, walk
from tools.wire.traces.steps import Row, Step, rows_of

_TIMEOUT_S = 30
_AGAIN_AFTER_S = 0.05
_PASSING = PASSING | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


class TraceFailed(OfflineError):
    """A broker answered with an unexpected error."""


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request in flight: `data` is the frame with its size."""

    api: Api
    version: int
    correlation_id: int
    data: bytes

    @property
    def name(self) -> str:
        """Return API and version."""
        return f"{self.api.name} v{self.version}"

    def header(self) -> list[FieldSpan]:
        """Return the size and the header's fields."""
        return _framed(walk(REQUEST_HEADER, self.api.request_header_version(self.version), self.data, 4), self.data)

    def body(self) -> list[FieldSpan]:
        """Return the fields of the request."""
        header = self.header()
        start = header[-1].position + header[-1].size
        return list(walk(self.api.request, self.version, self.data, start))


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer: `data` is the answer's frame with its size, `answer` the decoded body."""

    pending: PendingRequest
    data: bytes
    answer: Struct

    def frame_step(self, title: str, about: str = "") -> Step:
        """Return a step with the request's frame: size and header."""
        return Step("frame", title, about, rows_of(self.pending.header(), self.pending.data))

    def decode_step(self, title: str, about: str = "") -> Step:
        """Return a step with the request's fields."""
        return Step("decode", title, about, rows_of(self.pending.body(), self.pending.data))

    def answer_step(self, title: str, about: str = "") -> Step:
        """Return a step with the answer: size, header, fields."""
        version = self.pending.api.response_header_version(self.pending.version)
        header = _framed(walk(RESPONSE_HEADER, version, self.data, 4), self.data)
        start = header[-1].position + header[-1].size
        fields = walk(self.pending.api.response, self.pending.version, self.data, start)
        return Step("answer", title, about, rows_of((*header, *fields), self.data))

    def steps(self, who: str, about: str = "", answer_about: str = "") -> tuple[Step, Step]:
        """Return a step for the request of `who`, and one for the answer."""
        name = self.pending.name
        pieces = (*self.pending.header(), *self.pending.body())
        request = Step("request", f"{who} -> broker: {name}", about, rows_of(pieces, self.pending.data))
        return request, self.answer_step(f"broker -> {who}: {name}, answer", answer_about)


def _framed(pieces: Any, data: bytes) -> list[FieldSpan]:
    return [FieldSpan("size", "int32", 0, SIZE_BYTES, int.from_bytes(data[:SIZE_BYTES], "big")), *pieces]


class Client:
    """A connection that uses the newest versions that both sides have. Errors: LinkBroken."""

    def __init__(self, address: Address, client_id: str) -> None:
        self._link = Link(address, _TIMEOUT_S, client_id)
        self._versions: dict[int, int] = {}
        answer = self.receive(self.send(API_VERSIONS)).answer
        self._versions = {each.api_key: each.max_version for each in answer.api_keys}

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    def send(self, api: Api, **fields: Any) -> PendingRequest:
        """Send a request without waiting for its answer."""
        version = min(self._versions.get(api.key, 0), api.current.max)
        pending, data = self._link.ask(api, version, api.request(**fields))
        return PendingRequest(api, version, pending.correlation_id, data)

    def receive(self, pending: PendingRequest) -> Exchange:
        """Return the exchange of the oldest request in flight."""
        try:
            response = self._link.answer()
        except ProtocolError as error:
            raise TraceFailed(f"{pending.name}: {error}") from None
        return Exchange(pending, frame(bytes(response.body)), response.fields)

    def ask(self, api: Api, *, expected: int = ErrorCode.NONE, **fields: Any) -> Exchange:
        """Send a request, and again while the broker is not ready. TraceFailed: an error other than `expected`."""
        until_s = time.monotonic() + _TIMEOUT_S
        while True:
            exchange = self.receive(self.send(api, **fields))
            codes = error_codes(plain(exchange.answer, exchange.pending.version)) - {expected}
            if not codes:
                return exchange
            if codes - _PASSING or time.monotonic() > until_s:
                raise TraceFailed(f"{exchange.pending.name}: {', '.join(ErrorCode(code).name for code in codes)}")
            time.sleep(_AGAIN_AFTER_S)

    def topic_id(self, topic: str) -> bytes:
        """Return the id of a topic."""
        found: bytes = self.ask(METADATA, topics=[MetadataRequestTopic(name=topic)]).answer.topics[0].topic_id
        return found


def row(name: str, value: Any) -> Row:
    """Return a row without bytes of its own."""
    return Row(name, value)
