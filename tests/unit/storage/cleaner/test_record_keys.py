"""Reading the keys of a batch gives the same result as decoding whole records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.records.batch import BatchHeader, parse_header
from protocol.records.builder import BatchBuilder
from protocol.records.errors import InvalidRecord
from protocol.records.record import iter_batch_records
from storage.cleaner.record_keys import BatchKeys, add_keys, read_keys, uncompressed

BASE, T0 = 1000, 1_700_000_000_000

alike = st.lists(
    st.tuples(
        st.integers(1, 90),  # number of records
        st.integers(0, 70),  # ms between them
        st.one_of(st.none(), st.integers(0, 70)),  # size of the keys
        st.one_of(st.none(), st.integers(0, 200)),  # size of the values
        st.sampled_from([1, 3, 100, 9000]),  # by which the values may be larger
    ),
    min_size=1,
    max_size=4,
)


@given(alike, st.integers(0, 2), st.integers(0, 3))
def test_keys_of_uniform_records(runs: list[tuple], gap: int, gap_at: int) -> None:  # type: ignore[type-arg]
    """Uniform records are read together, from any record on, and whatever follows them."""
    builder, offset, time = BatchBuilder(BASE), BASE, T0
    for place, (count, step_ms, key_bytes, value_bytes, spread) in enumerate(runs):
        offset += gap if place == gap_at else 0
        for number in range(count):
            key = None if key_bytes is None else b"%3d" % number + bytes(key_bytes)
            value = None if value_bytes is None else bytes(value_bytes + number * 37 % spread)
            builder.append(time, key, value, offset=offset)
            offset, time = offset + 1, time + step_ms
    batch = memoryview(builder.build())
    header = parse_header(batch)
    records = list(iter_batch_records(batch, header))
    found = BatchKeys([b"before"], [1], [])
    add_keys(found, bytes(batch) + b"behind", 61, len(batch), header)
    assert found.keys == [b"before", *(record.key for record in records)]
    assert found.offsets == [1, *(record.offset for record in records)]
    assert found.tombstones == [number for number, record in enumerate(records, 1) if record.value is None]


def test_keys_of_a_large_batch() -> None:
    """From 8192 on, offset deltas have three bytes."""
    builder = BatchBuilder(BASE)
    for number in range(8500):
        builder.append(T0, b"%5d" % number, b"v")
    batch = memoryview(builder.build())
    header = parse_header(batch)
    found = read_keys(uncompressed(batch, header), header)
    assert found.keys == [b"%5d" % number for number in range(8500)]
    assert list(found.offsets) == list(range(BASE, BASE + 8500))


@pytest.mark.parametrize(
    "change",
    [
        lambda data, header: (data[:-1], header),
        lambda data, header: (data + b"\0", header),
        lambda data, header: (data, header._replace(record_count=header.record_count + 1)),
        lambda data, header: (data, header._replace(record_count=header.record_count - 1)),
        lambda data, header: (data, header._replace(last_offset_delta=0)),
        lambda data, header: (data[:3] + b"\x04" + data[4:], header),  # offset delta 2 is before 1
        lambda data, header: (data[:3] + b"\x01" + data[4:], header),  # offset delta -1
        lambda data, header: (data[:4] + b"\x7e" + data[5:], header),  # a key of 63 bytes
    ],
)
def test_records_that_contradict_the_header_are_rejected(change) -> None:  # type: ignore[no-untyped-def]
    """The cleaner would rewrite such records wrongly, so it leaves the log alone."""
    builder = BatchBuilder()
    for number in range(3):
        builder.append(T0, b"k", b"%d" % number)
    batch = memoryview(builder.build())
    header: BatchHeader = parse_header(batch)
    with pytest.raises(InvalidRecord):
        read_keys(*change(uncompressed(batch, header), header))
