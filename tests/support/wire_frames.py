"""Frames recorded between stock clients and Apache Kafka (tests/data/wire)."""

from __future__ import annotations

import base64
import csv
import sys
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
    csv.field_size_limit(sys.maxsize)
    with open(WIRE / file_name, encoding="utf-8", newline="") as file:
        yield from enumerate(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE), 2)


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
