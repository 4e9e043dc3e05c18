"""The positions of fields: the loop gives the same result as reading record by record, and rejects damage."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.records.compiled_fields import walk_fields
from protocol.records.errors import InvalidRecord
from protocol.records.fields import BORDERS, HAS_HEADERS, NO_KEY, NO_VALUE, decode_fields
from protocol.records.record import Headers, decode_headers, decode_record, encode_record

ROOM = 8
ALL = 1 << 62
Noted = tuple[int, int, bytes | None, bytes | None, Headers]
"""Offset, timestamp in us, key, value, headers."""

small = st.none() | st.binary(max_size=12)
fields = st.tuples(
    st.integers(-(1 << 40), 1 << 40) | st.integers(-100, 100),
    st.integers(0, (1 << 31) - 1) | st.integers(0, 300),
    small | st.integers(60, 20_000).map(bytes),
    small | st.integers(60, 3 << 20).map(bytes),
    st.lists(st.tuples(st.text(max_size=3), small), max_size=2).map(tuple),
)


def walk(
    data: bytes,
    *,
    start: int = 0,
    behind: int = ALL,
    base: int = 0,
    time_ms: int = 0,
    is_append_time: bool = False,
    position: int = 0,
    stop: int = ALL,
    count: int = ALL,
    with_fields: bool = True,
) -> tuple[list[Noted], int, int]:
    """Return the stored records, the number of records read, and the position of the next one."""
    offsets, timestamps = array("q", bytes(8 * ROOM)), array("q", bytes(8 * ROOM))
    borders, marks, shift = array("i", bytes(4 * BORDERS * ROOM)), bytearray(ROOM), 7
    looked, taken, position, seen = walk_fields(
        *(data, position, stop, count, start, behind, base, time_ms, is_append_time),
        *(offsets, timestamps, borders, marks, 0, shift, with_fields),
    )
    noted: list[Noted] = []
    for row in range(taken):
        key_at, key_end, value_at, value_end, end = (
            each - shift for each in borders[BORDERS * row : BORDERS * (row + 1)]
        )
        mark = marks[row] if with_fields else NO_KEY | NO_VALUE
        assert seen | mark == seen or not with_fields
        noted.append(
            (
                offsets[row],
                timestamps[row],
                None if mark & NO_KEY else data[key_at:key_end],
                None if mark & NO_VALUE else data[value_at:value_end],
                decode_headers(data[value_end:end]) if mark & HAS_HEADERS else (),
            )
        )
    return noted, looked, position


@given(st.lists(fields, max_size=ROOM), st.integers(0, 1000))
def test_loop_equals_reading_record_by_record(
    given_fields: list[tuple[int, int, bytes, bytes, Headers]], base: int
) -> None:
    """Including unusual records, after which the loop continues."""
    encoded = [encode_record(delta, time, *rest) for time, delta, *rest in given_fields]
    data = b"".join(encoded)
    noted: list[Noted] = []
    position, left = 0, len(encoded)
    while left:
        found, looked, position = walk(data, base=base, time_ms=5, position=position, count=left)
        noted += found
        left -= looked
        if not looked:
            delta, time, end, (key_at, key_end, value_at, value_end, border), mark = decode_fields(data, position)
            assert border == end
            key = None if mark & NO_KEY else data[key_at:key_end]
            value = None if mark & NO_VALUE else data[value_at:value_end]
            headers = decode_headers(data[value_end:end]) if mark & HAS_HEADERS else ()
            noted.append((base + delta, (5 + time) * 1000, key, value, headers))
            position, left = end, left - 1

    assert position == len(data)
    assert noted == [
        (base + delta, (5 + time) * 1000, key, value, headers) for time, delta, key, value, headers in given_fields
    ]


@given(st.binary(max_size=40))
def test_loop_stores_only_valid_records(data: bytes) -> None:
    """For any bytes: nothing is read beyond their end, and no field extends beyond its record."""
    try:
        noted, looked, position = walk(data)
    except IndexError:
        return
    assert len(noted) == looked
    at = 0
    for offset, time_us, key, value, headers in noted:
        time, delta, *rest, at = decode_record(data, at)
        assert (delta, time * 1000, key, value, headers) == (offset, time_us, *rest)
    assert at == position


def test_usual_records_need_no_slow_path() -> None:
    data = b"".join(encode_record(number, number * 1000, b"k" * number, b"v" * 300 * number) for number in range(5))

    noted, looked, position = walk(data)

    assert (len(noted), looked, position) == (5, 5, len(data))


def test_loop_ends_at_its_limits() -> None:
    record = encode_record(0, 0, None, b"value")
    data = record * 20

    assert walk(data)[1:] == (ROOM, ROOM * len(record))
    assert walk(data, count=3)[1:] == (3, 3 * len(record))
    assert walk(data, stop=2 * len(record))[1:] == (2, 2 * len(record))
    assert walk(data, stop=2 * len(record) + 1)[1:] == (3, 3 * len(record))
    assert walk(data, position=19 * len(record))[1:] == (1, 20 * len(record))


def test_only_the_requested_range_is_stored() -> None:
    data = b"".join(encode_record(number, 10 + number, b"key", b"value") for number in range(5))

    noted, looked, _ = walk(data, base=100, start=101, behind=103, time_ms=1)
    assert (looked, noted) == (5, [(101, 12_000, b"key", b"value", ()), (102, 13_000, b"key", b"value", ())])

    noted, looked, _ = walk(data, base=100, time_ms=1, is_append_time=True, with_fields=False)
    assert (looked, noted) == (5, [(100 + number, 1000, None, None, ()) for number in range(5)])


@pytest.mark.parametrize(
    "record",
    [
        encode_record(-1, 0, b"k", b"v"),
        encode_record(0, 1 << 45, b"k", b"v"),
        bytes([14, 0, 0, 0, 3, 1, 0, 0]),  # a key of -2 bytes
        bytes([14, 0, 0, 0, 1, 1, 0, 0]),  # fields that end before the record
        bytes([14, 0, 0, 0, 1, 40, 0, 0]),  # a value past the end
        bytes([40, 0, 0, 0, 1, 1, 0, 0]),  # a record past the end
    ],
)
def test_unusual_records_end_the_loop(record: bytes) -> None:
    usual = encode_record(0, 0, b"k", b"v")

    assert walk(usual + record + bytes(8)) == ([(0, 0, b"k", b"v", ())], 1, len(usual))


def test_headers_must_end_with_their_record() -> None:
    with pytest.raises(InvalidRecord):
        decode_headers(encode_record(0, 0, None, None, (("name", b"value"),))[6:] + b"\0")
