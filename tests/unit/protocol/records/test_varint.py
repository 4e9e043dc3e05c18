"""Zigzag varints: documented examples and round trips."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.errors import InvalidRecord
from protocol.records.varint import decode_varint, decode_varlong, encode_varint, zigzag
from tests.support.scale import scaled


@pytest.mark.parametrize(
    ("value", "folded"),
    [(0, 0), (-1, 1), (1, 2), (2, 4), (-2, 3), (2147483647, 4294967294), (-2147483648, 4294967295)],
)
def test_zigzag_maps_small_magnitudes_to_small_numbers(value: int, folded: int) -> None:
    """The documented vectors (S8.4; the documents' own 2 -> 3 is an error)."""
    assert zigzag(value) == folded


@pytest.mark.parametrize(
    ("value", "size"),
    [(0, 1), (63, 1), (64, 2), (8191, 2), (8192, 3), (1048575, 3), (1048576, 4), (1000012, 3)],
)
def test_varint_sizes_grow_at_the_documented_values(value: int, size: int) -> None:
    """0..63 take one byte, 64..8191 two, 8192..1048575 three (S8.3); 1000012 takes three (S8.7)."""
    assert len(encode_varint(value)) == size


def test_null_length_takes_one_byte() -> None:
    """-1 as a varint is 0x01; the old formats need four bytes (S8.5)."""
    assert encode_varint(-1) == b"\x01"


def test_int32_extremes_take_five_bytes() -> None:
    """The worst case is one byte more than the fixed encoding (S8.6)."""
    assert len(encode_varint(2147483647)) == len(encode_varint(-2147483648)) == 5


@settings(max_examples=scaled(200))
@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_varlong_round_trips(value: int) -> None:
    encoded = encode_varint(value)

    assert decode_varlong(b"x" + encoded + b"tail", 1) == (value, 1 + len(encoded))


@settings(max_examples=scaled(200))
@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_varint_round_trips(value: int) -> None:
    assert decode_varint(encode_varint(value), 0) == (value, len(encode_varint(value)))


@pytest.mark.parametrize("encoded", [b"", b"\x80", b"\xff\xff\xff\xff"])
def test_truncated_varint_is_rejected(encoded: bytes) -> None:
    with pytest.raises(InvalidRecord, match="cut off"):
        decode_varint(encoded, 0)


def test_endless_varint_is_rejected() -> None:
    with pytest.raises(InvalidRecord, match="more than 5 bytes"):
        decode_varint(b"\x80" * 20, 0)
    with pytest.raises(InvalidRecord, match="more than 10 bytes"):
        decode_varlong(b"\x80" * 20, 0)
