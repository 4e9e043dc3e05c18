"""Varints and tagged field sections."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.error_codes import ProtocolError
from protocol.primitives import (
    MAX_UNKNOWN_TAGGED_FIELDS,
    length_rest,
    read_unsigned_varint,
    skip_tagged_fields,
    unsigned_varint,
)
from tests.support.scale import scaled

KNOWN = [
    (0, "00"),
    (1, "01"),
    (127, "7f"),
    (128, "8001"),
    (300, "ac02"),
    (2**31 - 1, "ffffffff07"),
    (2**32 - 1, "ffffffff0f"),
]


@pytest.mark.parametrize(("value", "encoded"), KNOWN)
def test_varint_known_values(value: int, encoded: str):
    """Seven bits per byte, lowest first."""
    assert unsigned_varint(value) == bytes.fromhex(encoded)
    assert read_unsigned_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@settings(max_examples=scaled(100))
@given(st.integers(0, 2**32 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_varint_round_trips_at_any_position(value: int, before: bytes, after: bytes):
    """The bytes around it do not matter."""
    encoded = unsigned_varint(value)

    assert read_unsigned_varint(before + encoded + after, len(before)) == (value, len(before) + len(encoded))


@pytest.mark.parametrize("encoded", ["", "80", "ffffffff", "ffffffffff01"])
def test_varint_truncated_or_too_long_is_a_protocol_error(encoded: str):
    """At most five bytes (rule 1)."""
    with pytest.raises(ProtocolError):
        read_unsigned_varint(bytes.fromhex(encoded), 0)


def test_varint_of_more_than_32_bits_loses_the_highest():
    """As in Java."""
    assert read_unsigned_varint(bytes.fromhex("ffffffff1f"), 0) == (0xFFFFFFFF, 5)
    assert read_unsigned_varint(bytes.fromhex("8180808070"), 0) == (1, 5)


@pytest.mark.parametrize(("encoded", "value"), [("ffffffff07", 2**31 - 1), ("ffffffff0f", -1), ("fdffffff0f", -3)])
def test_counts_and_lengths_are_signed(encoded: str, value: int):
    """As in Kafka: a negative length means null; a negative number of tagged fields is an error since 4.4."""
    data = bytes.fromhex(encoded)
    assert length_rest(data, 1, data[0]) == (value, 5)
    with pytest.raises(ProtocolError):
        skip_tagged_fields(data, 1, data[0], 5)


def test_skip_tagged_fields():
    """Tags and sizes may have any length; contents are skipped."""
    section = bytes.fromhex("0003aabbcc" + "ac02" + "00" + "05" + "8101") + bytes(129)

    assert skip_tagged_fields(section, 0, 3, len(section)) == (len(section), 3)


@pytest.mark.parametrize("section", ["", "00", "0005aabb", "00ffffffff0f"])
def test_skip_tagged_fields_beyond_the_end_is_a_protocol_error(section: str):
    """A size never exceeds the available bytes."""
    data = bytes.fromhex(section)
    with pytest.raises(ProtocolError):
        skip_tagged_fields(data, 0, 1, len(data))


def test_skip_tagged_fields_with_a_count_of_several_bytes():
    """The first byte of the count is passed in."""
    section = b"\x01" + b"\x00\x00" * 128

    assert skip_tagged_fields(section, 0, 0x80, len(section)) == (len(section), 128)


def test_too_many_tagged_fields_are_a_protocol_error():
    """Each is two bytes on the wire, and takes time."""
    for count, encoded in ((MAX_UNKNOWN_TAGGED_FIELDS, "e807"), (MAX_UNKNOWN_TAGGED_FIELDS + 1, "e907")):
        first, *rest = bytes.fromhex(encoded)
        section = bytes(rest) + bytes(2 * count)
        if count == MAX_UNKNOWN_TAGGED_FIELDS:
            assert skip_tagged_fields(section, 0, first, len(section)) == (len(section), count)
        else:
            with pytest.raises(ProtocolError, match="1001 unknown tagged fields"):
                skip_tagged_fields(section, 0, first, len(section))
