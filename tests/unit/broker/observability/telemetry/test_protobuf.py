"""The wire format of Protocol Buffers: worked examples, and malformed messages."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.observability.telemetry.protobuf import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    Malformed,
    double,
    fields,
    int64,
    messages,
    number_of,
    signed,
    tag,
    text,
)
from tests.support.scale import scaled
from tests.support.telemetry import field


def read(data: bytes) -> list[tuple[int, int | bytes]]:
    return [(found, value if isinstance(value, int) else bytes(value)) for found, value in fields(memoryview(data))]


def test_worked_examples() -> None:
    """Those of the format's documentation: 150, "testing", and a nested message."""
    assert read(bytes.fromhex("089601")) == [(tag(1, VARINT), 150)]
    assert read(bytes.fromhex("120774657374696e67")) == [(tag(2, LENGTH), b"testing")]
    (inner,) = messages(memoryview(bytes.fromhex("1a03089601")), 3)
    assert number_of(inner, 1) == 150


def test_all_wire_types_are_read_in_order() -> None:
    data = field(1, 1) + field(2, 2.5) + field(3, b"abc") + bytes([4 << 3 | FIXED32]) + b"wxyz"

    assert [found for found, _ in read(data)] == [
        tag(1, VARINT),
        tag(2, FIXED64),
        tag(3, LENGTH),
        tag(4, FIXED32),
    ]
    assert double(memoryview(read(data)[1][1])) == 2.5  # type: ignore[arg-type]
    assert read(data)[3][1] == b"wxyz"


def test_numbers_are_decoded() -> None:
    assert number_of(memoryview(field(1, 1) + field(2, 9) + field(1, 7)), 1) == 7  # the greatest one
    assert number_of(memoryview(b""), 1) == 0
    assert signed(int(read(field(1, -5))[0][1])) == -5
    assert signed(5) == 5
    assert int64(memoryview(b"\xfe" + b"\xff" * 7)) == -2


def test_field_of_another_wire_type_is_skipped() -> None:
    """As parsers of Protocol Buffers do."""
    data = memoryview(field(1, 5) + field(1, b"five"))

    assert number_of(data, 1) == 5
    assert [bytes(each) for each in messages(data, 1)] == [b"five"]


@pytest.mark.parametrize(
    "data",
    [
        b"\x08",  # no value
        b"\x80",  # a tag that does not end
        b"\x08" + b"\xff" * 10,  # a number of more than ten bytes
        b"\x0a\x05abc",  # two bytes too few
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a length of 2^64 - 1
        b"\x09abcdefg",  # seven bytes of eight
        b"\x0dabc",
        b"\x0b\x0c",  # a group
        b"\x0e",  # an unknown wire type
        b"\x00\x00",  # field number 0
    ],
)
def test_malformed_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises(Malformed):
        read(data)


def test_string_has_to_be_utf8() -> None:
    assert text(memoryview("é".encode())) == "é"
    with pytest.raises(Malformed, match="UTF-8"):
        text(memoryview(b"\xff"))


@settings(max_examples=scaled(200))
@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_malformed(data: bytes) -> None:
    """Nothing else is raised, and values lie within the message."""
    with suppress(Malformed):
        assert sum(len(value) for _, value in read(data) if isinstance(value, bytes)) <= len(data)
