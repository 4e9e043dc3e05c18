"""Messages field by field, compared with the decoders."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest

from protocol.api_keys import ApiKey
from protocol.id_text import id_text
from protocol.messages.fetch import FETCH
from protocol.messages.sasl_authenticate import SASL_AUTHENTICATE
from protocol.records.builder import BatchBuilder
from protocol.registry import API_BY_KEY
from protocol.schema import Message, Struct
from tests.support.message_values import random_value
from tools.wire.sessions.plain import HIDDEN
from tools.wire.traces.fields import FieldSpan, batch_fields, walk


def at(value: Any, path: str) -> Any:
    """Return the value at a path such as topics[0].name."""
    for name, index in re.findall(r"(\w+)|\[(\d+)\]", path):
        value = getattr(value, name) if name else value[int(index)]
    return value


def expected_text(value: Any, kind: str) -> Any:
    """Return the text of a decoded value."""
    if value is None:
        return None
    if isinstance(value, Struct):
        return "struct"
    if isinstance(value, list):
        return len(value)
    if kind == "records":
        return f"{len(value)} bytes"
    return id_text(value) if kind == "uuid" else value


def assert_whole(message: Message, version: int, data: bytes) -> None:
    """Assert that the pieces are contiguous, cover all bytes, and agree with the decoder."""
    decoded, end = message.decode(version, memoryview(data))
    position = 0
    for piece in walk(message, version, data):
        assert piece.position == position
        position += piece.size
        if "(" not in piece.path and piece.type != "bytes" and piece.value != HIDDEN:
            assert piece.value == expected_text(at(decoded, piece.path), piece.type), piece
    assert position == end == len(data)


@pytest.mark.parametrize("key", ApiKey)
def test_every_message_is_covered(key: ApiKey) -> None:
    """Each API with values in all fields, in its first, first flexible and last version."""
    random = Random(int(key))
    api = API_BY_KEY[key]
    versions = sorted({api.versions.min, api.flexible.min, api.versions.max} & set(api.versions))
    for message in (api.request, api.response):
        for version in versions:
            assert_whole(message, version, message.encode(version, random_value(random, message, version)))


def test_unknown_tagged_fields_are_shown_as_bytes() -> None:
    data = FETCH.request.encode(12, FETCH.request(max_wait_ms=1, min_bytes=1))[:-1] + b"\x01\x63\x02ab"
    *_, count, unknown = walk(FETCH.request, 12, data)
    assert (count.path, count.value) == ("(tags)", 1)
    assert unknown == FieldSpan("(tag 99)", "unknown", len(data) - 4, 4, "2 bytes")


def test_passwords_are_not_shown_as_text() -> None:
    """Their bytes are, as the trace has its own broker."""
    data = SASL_AUTHENTICATE.request.encode(2, SASL_AUTHENTICATE.request(auth_bytes=b"\0me\0secret"))
    assert next(iter(walk(SASL_AUTHENTICATE.request, 2, data))).value == HIDDEN


def test_header_of_a_batch_is_covered() -> None:
    """At any position."""
    builder = BatchBuilder(5, producer_id=7, producer_epoch=1, base_sequence=9, transactional=True)
    builder.append(1000, b"k", b"v")
    data = b"before" + builder.build()
    pieces = {piece.path: piece for piece in batch_fields(data, 6)}
    assert (pieces["base_offset"].position, pieces["base_offset"].value) == (6, 5)
    assert (pieces["producer_id"].value, pieces["producer_id"].position) == (7, 6 + 43)
    assert pieces["attributes"].value == "0x0010 (codec 0, CreateTime, transactional)"
    assert pieces["records"].position + pieces["records"].size == len(data)
