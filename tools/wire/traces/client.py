"""A client whose requests and answers are shown to the last byte."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from protocol.errors import ErrorCode
from protocol.framing import SIZE_BYTES, frame
from protocol.headers import REQUEST_HEADER, RESPONSE_HEADER, decode_response_header, encode_request_header
from protocol.messages.api_versions import API_VERSIONS
from protocol.messages.metadata import METADATA, MetadataRequestTopic
from protocol.schema import Api, Struct
from tools.errors import OfflineError
from tools.wire.sessions.addresses import Address
from tools.wire.sessions.link import Link
from tools.wire.sessions.plain import plain
from tools.wire.sessions.player import PASSING, error_codes
from tools.wire.traces.fields import Seen, walk
from tools.wire.traces.steps import Row, Step, rows_of

_TIMEOUT_S = 30
_AGAIN_AFTER_S = 0.05
_PASSING = PASSING | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


class TraceFailed(OfflineError):
    """A broker answers with an error where none is expected."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request on its way: `data` is the frame with its size."""

    api: Api
    version: int
    correlation_id: int
    data: bytes

    @property
    def name(self) -> str:
        """API and version."""
        return f"{self.api.name} v{self.version}"

    def header(self) -> list[Seen]:
        """The size, and the header's fields."""
        return _framed(walk(REQUEST_HEADER, self.api.request_header_version(self.version), self.data, 4), self.data)

    def body(self) -> list[Seen]:
        """The fields of the request."""
        header = self.header()
        start = header[-1].position + header[-1].size
        return list(walk(self.api.request, self.version, self.data, start))


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer: `data` is the answer's frame with its size, `answer` what it says."""

    asked: Asked
    data: bytes
    answer: Struct

    def frame_step(self, title: str, about: str = "") -> Step:
        """The request's frame: size and header."""
        return Step("frame", title, about, rows_of(self.asked.header(), self.asked.data))

    def decode_step(self, title: str, about: str = "") -> Step:
        """The request's fields."""
        return Step("decode", title, about, rows_of(self.asked.body(), self.asked.data))

    def answer_step(self, title: str, about: str = "") -> Step:
        """The answer: size, header, fields."""
        version = self.asked.api.response_header_version(self.asked.version)
        header = _framed(walk(RESPONSE_HEADER, version, self.data, 4), self.data)
        start = header[-1].position + header[-1].size
        fields = walk(self.asked.api.response, self.asked.version, self.data, start)
        return Step("answer", title, about, rows_of((*header, *fields), self.data))

    def steps(self, who: str, about: str = "", answer_about: str = "") -> tuple[Step, Step]:
        """Request and answer, a step each; `who` asks."""
        name = self.asked.name
        pieces = (*self.asked.header(), *self.asked.body())
        request = Step("request", f"{who} -> broker: {name}", about, rows_of(pieces, self.asked.data))
        return request, self.answer_step(f"broker -> {who}: {name}, answer", answer_about)


def _framed(pieces: Any, data: bytes) -> list[Seen]:
    return [Seen("size", "int32", 0, SIZE_BYTES, int.from_bytes(data[:SIZE_BYTES], "big")), *pieces]


class Client:
    """A connection of its own, which asks in the newest versions that both sides have. Errors: LinkBroken."""

    def __init__(self, address: Address, client_id: str) -> None:
        self._link = Link(address, _TIMEOUT_S)
        self._client_id = client_id
        self._correlation_id = 0
        self._versions: dict[int, int] = {}
        answer = self.receive(self.send(API_VERSIONS)).answer
        self._versions = {each.api_key: each.max_version for each in answer.api_keys}

    def close(self) -> None:
        """Hang up."""
        self._link.close()

    def send(self, api: Api, **fields: Any) -> Asked:
        """Send a request whose answer may take its time."""
        version = min(self._versions.get(api.key, 0), api.current.max)
        self._correlation_id += 1
        head = encode_request_header(api, version, self._correlation_id, self._client_id)
        data = head + api.request.encode(version, api.request(**fields))
        self._link.send(data)
        return Asked(api, version, self._correlation_id, frame(data))

    def receive(self, asked: Asked) -> Exchange:
        """The answer to the oldest request that has none."""
        data = self._link.receive()
        correlation_id, position = decode_response_header(asked.api, asked.version, data)
        if correlation_id != asked.correlation_id:
            raise TraceFailed(f"answer {correlation_id} came where {asked.correlation_id} was due")
        answer, _ = asked.api.response.decode(asked.version, data, position)
        return Exchange(asked, frame(data), answer)

    def ask(self, api: Api, *, expected: int = ErrorCode.NONE, **fields: Any) -> Exchange:
        """Ask, again while the broker is not ready; the last exchange. TraceFailed: any other error than `expected`."""
        until_s = time.monotonic() + _TIMEOUT_S
        while True:
            exchange = self.receive(self.send(api, **fields))
            codes = error_codes(plain(exchange.answer, exchange.asked.version)) - {expected}
            if not codes:
                return exchange
            if codes - _PASSING or time.monotonic() > until_s:
                raise TraceFailed(f"{exchange.asked.name}: {', '.join(ErrorCode(code).name for code in codes)}")
            time.sleep(_AGAIN_AFTER_S)

    def topic_id(self, topic: str) -> bytes:
        """The id of a topic."""
        found: bytes = self.ask(METADATA, topics=[MetadataRequestTopic(name=topic)]).answer.topics[0].topic_id
        return found


def row(name: str, value: Any) -> Row:
    """Something that has no bytes of its own."""
    return Row(name, value)
