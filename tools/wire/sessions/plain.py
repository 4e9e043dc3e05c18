"""Requests and answers as JSON values: names of the schemas, ids as Kafka writes them, decoded records."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from protocol.id_text import id_text
from protocol.primitives import uuid
from protocol.records.batch import entry_at, parse_header, verify_crc
from protocol.records.compression import Codec
from protocol.records.entries import iter_records
from protocol.records.errors import RecordsError
from protocol.records.record import Record
from protocol.schema import Array, Field, ReadBuffer, Struct
from tools.data.java_text import JsonValue

#: Secret fields that must not be shown.
SECRETS = frozenset(("auth_bytes", "hmac", "salt", "salted_password"))
HIDDEN = "[hidden]"


def plain(value: Struct, version: int) -> dict[str, JsonValue]:
    """Return the fields of this version; tagged fields only if not default."""
    found: dict[str, JsonValue] = {}
    for field in value.struct_type.fields:
        given = getattr(value, field.name)
        if version in field.versions and (field.tag is None or given != field.default):
            found[field.name] = HIDDEN if field.name in SECRETS and given else _plain(field, given, version)
    return found


def _plain(field: Field, value: object, version: int) -> JsonValue:
    if isinstance(value, Struct):
        return plain(value, version)
    if isinstance(value, list):
        element = field.type.element if isinstance(field.type, Array) else field.type
        inner = Field(field.name, element)
        return [_plain(inner, each, version) for each in value]
    if field.type is uuid and isinstance(value, bytes):
        return id_text(value)
    if isinstance(value, memoryview):
        return list(batches(value))
    if isinstance(value, bytes):
        return text_or_base64(value)
    assert value is None or isinstance(value, bool | int | float | str)
    return value


def text_or_base64(data: bytes | None) -> JsonValue:
    """Return UTF-8 text as a string, other bytes as {"base64": ...}."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    return text if text.isprintable() else {"base64": base64.b64encode(data).decode()}


def batches(records: ReadBuffer) -> Iterator[dict[str, JsonValue]]:
    """Yield the batches, or messages of v0 and v1, with their records. A damaged one is the last, with the error."""
    view, position = memoryview(records), 0
    try:
        while (entry := entry_at(view, position)) is not None:
            offset, size, magic = entry
            whole = view[position : position + size]
            found: dict[str, JsonValue] = {"base_offset": offset, "magic": magic}
            if magic == 2:
                header = parse_header(whole)
                found |= {
                    "last_offset": header.last_offset,
                    "crc_valid": verify_crc(whole, 0, size),
                    "codec": Codec(header.codec).name.lower() if header.codec in set(Codec) else header.codec,
                    "timestamp_type": "LogAppendTime" if header.timestamp_type else "CreateTime",
                    "transactional": header.is_transactional,
                    "control": header.is_control,
                    "producer_id": header.producer_id,
                    "producer_epoch": header.producer_epoch,
                    "base_sequence": header.base_sequence,
                }
            found["records"] = [_record(each) for each in iter_records(whole)]
            yield found
            position += size
    except RecordsError as error:
        yield {"damaged": str(error), "position": position}


def _record(record: Record) -> JsonValue:
    found: dict[str, JsonValue] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": text_or_base64(record.key),
        "value": text_or_base64(record.value),
    }
    if record.headers:
        found["headers"] = [
            [name.encode("utf-8", "replace").decode(), text_or_base64(value)] for name, value in record.headers
        ]
    return found
