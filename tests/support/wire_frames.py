"""Frames recorded between stock clients and Apache Kafka (tests/data/wire), alone and as exchanges."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from protocol.headers import decode_request_header, decode_response_header
from protocol.primitives import Primitive, bytestring, records, uuid
from protocol.registry import API_BY_KEY
from protocol.schema import Api, Array, Message, Struct, StructType

WIRE = Path(__file__).parents[1] / "data" / "wire"


@dataclass(frozen=True)
class RecordedFrame:
    """One frame without its size; `version` is that of its body, `json` is Kafka's own decoding."""

    source: str
    api: Api
    version: int
    message: Message
    data: bytes
    position: int
    json: str


@cache
def recorded_files() -> tuple[str, ...]:
    return tuple(sorted(path.name for path in WIRE.glob("*.tsv")))


def recorded_rows(file_name: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a file, each with its line number."""
    with open(WIRE / file_name, encoding="utf-8") as file:
        names = next(file).rstrip("\n").split("\t")
        for number, line in enumerate(file, 2):
            yield number, dict(zip(names, line.rstrip("\n").split("\t"), strict=True))


def recorded_frames(file_name: str) -> Iterator[RecordedFrame]:
    """Yield the frames of a file whose bodies can be decoded.

    Left out: connections that Kafka closed, Produce v0 to v2 whose bodies are in the layout of v3, and the ApiVersions
    request in a version that does not exist.
    """
    for number, row in recorded_rows(file_name):
        direction, api = row["direction"], API_BY_KEY[int(row["api_key"])]
        version = 0 if direction == "response-as-v0" else int(row["version"])
        if direction in {"closed", "request-unsupported"} or version not in api.versions:
            continue
        data = bytes.fromhex(row["hex"])
        if direction.startswith("request"):
            message, position = api.request, decode_request_header(data).position
        else:
            message, position = api.response, decode_response_header(api, version, data)[1]
        yield RecordedFrame(f"{file_name}:{number}", api, version, message, data, position, row["json"])


def as_kafka_json(value: Struct, version: int) -> dict[str, Any]:
    """Return a value as Kafka's JSON converters do, with record data as an empty string."""
    found: dict[str, Any] = {}
    for field in value.struct_type.fields:
        content = getattr(value, field.name)
        if version in field.versions and not (field.tag is not None and content == field.default):
            found[camel(field.name)] = to_json(content, field.type, version)
    return found


def to_json(value: Any, kind: Primitive | Array | StructType, version: int) -> Any:
    if value is None:
        return None
    if isinstance(kind, Array):
        return [to_json(item, kind.element, version) for item in value]
    if isinstance(kind, StructType):
        return as_kafka_json(value, version)
    if kind is uuid:
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    if kind is bytestring:
        return base64.b64encode(value).decode()
    return "" if kind is records else value


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


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
