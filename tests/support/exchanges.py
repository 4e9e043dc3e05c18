"""Exchanges recorded with Apache Kafka (tests/data/wire): a request, and its outcome."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from protocol.headers import decode_request_header, decode_response_header
from protocol.registry import API_BY_KEY
from protocol.schema import Api, Struct
from tests.support.wire_frames import recorded_rows


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request frame (without its size) and the frame that answered it.

    `answer` is None without an answer: the connection was closed (`closed`), or none is due (acks=0). `answer_version`
    differs from `version` if ApiVersions was requested in a version that does not exist.
    """

    source: str
    api: Api
    version: int
    connection: str
    correlation_id: int
    request: bytes
    answer: bytes | None
    answer_version: int
    closed: bool

    def decode_request(self) -> Struct | None:
        """Return the decoded request; None for versions without a schema."""
        if self.version not in self.api.versions:
            return None
        return self.api.request.decode(self.version, self.request, self.body_position)[0]

    @property
    def body_position(self) -> int:
        """Return the position of the request's body in its frame."""
        return decode_request_header(self.request).position

    def decode_answer(self) -> Struct:
        """Return the decoded answer, which must exist."""
        assert self.answer is not None, self.source
        position = decode_response_header(self.api, self.answer_version, self.answer)[1]
        return self.api.response.decode(self.answer_version, self.answer, position)[0]


def recorded_exchanges(file_name: str) -> Iterator[Exchange]:
    """Yield the exchanges of a file in the order of their requests."""
    for exchange in sorted(_paired(file_name), key=lambda each: each[0]):
        yield exchange[1]


def _paired(file_name: str) -> Iterator[tuple[int, Exchange]]:
    waiting: dict[tuple[str, str], tuple[int, dict[str, str]]] = {}
    for number, row in recorded_rows(file_name):
        key = (row.get("connection", "0"), row["correlation_id"])
        if row["direction"] == "request-noanswer":
            yield number, _exchange(file_name, number, row, None)
        elif row["direction"].startswith("request"):
            waiting[key] = number, row
        elif key in waiting:
            line, request = waiting.pop(key)
            yield line, _exchange(file_name, line, request, row)


def _exchange(file_name: str, line: int, request: dict[str, str], answer: dict[str, str] | None) -> Exchange:
    direction = "" if answer is None else answer["direction"]
    version = int(request["version"])
    frame = bytes.fromhex(request["hex"])
    return Exchange(
        source=f"{file_name}:{line}",
        api=API_BY_KEY[int(request["api_key"])],
        version=version,
        connection=request.get("connection", "0"),
        correlation_id=struct.unpack_from(">i", frame, 4)[0],
        request=frame,
        answer=bytes.fromhex(answer["hex"]) if answer is not None and direction != "closed" else None,
        answer_version=0 if direction == "response-as-v0" else version,
        closed=direction == "closed",
    )
