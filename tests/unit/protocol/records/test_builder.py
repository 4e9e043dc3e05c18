"""Built batches are read back unchanged. Small records take the bytes that docs/generated/facts.md states (S8.8)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.batch import parse_header, verify_crc
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.entries import iter_records
from protocol.records.errors import InvalidRecord
from protocol.records.legacy_builder import MessageSetBuilder
from protocol.records.record import Record, keys_and_values
from tests.support.scale import scaled

TEN_RECORDS = [(1_700_000_000_000 + number, b"key", b"val") for number in range(10)]


def test_ten_small_messages_take_320_bytes_in_v0() -> None:
    """Ten messages with 6 bytes of key and value: 10 x (26 + 6) (S8.8)."""
    assert len(message_set(0)) == 320


def test_ten_small_messages_take_400_bytes_in_v1() -> None:
    """Each message has a timestamp: 10 x (34 + 6) (S8.8)."""
    assert len(message_set(1)) == 400


def test_ten_small_records_take_191_bytes_in_one_v2_batch() -> None:
    """One header serves all records: 61 + 10 x 13 (S8.8)."""
    builder = BatchBuilder()
    for timestamp, key, value in TEN_RECORDS:
        builder.append(timestamp, key, value)
    assert len(builder.build()) == builder.size_bytes == 191


def test_ten_small_records_take_740_bytes_in_ten_v2_batches() -> None:
    """Each batch has a header of 61 bytes: 10 x (61 + 13) (S8.8)."""
    total = 0
    for timestamp, key, value in TEN_RECORDS:
        builder = BatchBuilder()
        builder.append(timestamp, key, value)
        total += len(builder.build())
    assert total == 740


def message_set(magic: int) -> bytes:
    builder = MessageSetBuilder(magic)
    for timestamp, key, value in TEN_RECORDS:
        builder.append(timestamp, key, value)
    return builder.build()


ITEMS = st.none() | st.binary(max_size=70)
RECORDS = st.lists(
    st.tuples(
        st.integers(0, 1 << 45),
        ITEMS,
        ITEMS,
        st.lists(st.tuples(st.text(max_size=5), ITEMS), max_size=3).map(tuple),
        st.integers(1, 5),
    ),
    max_size=20,
)


@settings(max_examples=scaled(60))
@given(RECORDS, st.sampled_from(Codec), st.booleans(), st.integers(0, 1 << 60))
def test_built_records_are_read_back(
    rows: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]],
    codec: Codec,
    transactional: bool,
    base_offset: int,
) -> None:
    """Keys, values and headers, null and empty; any timestamps; gaps between offsets; every codec."""
    builder = BatchBuilder(
        base_offset, codec, producer_id=3, producer_epoch=1, base_sequence=0, transactional=transactional
    )
    offset = base_offset - 1
    expected = []
    for timestamp, key, value, headers, gap in rows:
        offset += gap
        builder.append(timestamp, key, value, headers, offset=offset)
        expected.append(Record(offset, timestamp, key, value, headers, offset - base_offset))
    batch = builder.build()

    assert list(iter_records(batch)) == expected
    assert keys_and_values(b"before" + batch + b"behind", 6, parse_header(batch)) == [
        (record.offset, record.key, record.value) for record in expected
    ]
    assert verify_crc(batch, 0, len(batch))
    header = parse_header(batch)
    assert header.is_transactional == transactional
    assert header.max_timestamp == max((row[0] for row in rows), default=-1)
    assert header.record_count == len(rows)


@given(st.lists(st.tuples(ITEMS, ITEMS), max_size=5), st.lists(st.tuples(ITEMS, ITEMS), max_size=5))
def test_extend_equals_repeated_appends(
    rows: list[tuple[bytes | None, bytes | None]], more: list[tuple[bytes | None, bytes | None]]
) -> None:
    at_once, one_by_one = BatchBuilder(), BatchBuilder()
    for timestamp, items in ((7, rows), (900, more)):
        at_once.extend(timestamp, items)
        for key, value in items:
            one_by_one.append(timestamp, key, value)

    assert at_once.build() == one_by_one.build()
    assert at_once.size_bytes == one_by_one.size_bytes


@pytest.mark.parametrize("wrong", [-1, 1])
def test_wrong_count_is_an_error_for_keys_and_values(wrong: int) -> None:
    builder = BatchBuilder()
    builder.extend(1, [(b"a", b"b"), (b"c", b"d")])
    batch = builder.build()
    header = parse_header(batch)

    with pytest.raises(InvalidRecord):
        keys_and_values(batch + batch, 0, header._replace(record_count=2 + wrong))


def test_header_keys_with_invalid_utf8_are_kept() -> None:
    """Kafka writes header keys as UTF-8, other clients may not: decoding and encoding loses nothing."""
    raw = b"\xff\xfekey"
    builder = BatchBuilder()
    builder.append(1, None, None, ((raw.decode("utf-8", "surrogateescape"), b"x"),))
    batch = builder.build()
    record = next(iter_records(batch))
    again = BatchBuilder()
    again.append(1, None, None, record.headers)

    assert raw in batch
    assert again.build() == batch


def test_log_append_time_is_the_time_of_all_records() -> None:
    builder = BatchBuilder(log_append_time_ms=99)
    builder.append(5, b"a", None)
    builder.append(6, b"b", None)

    assert [record.timestamp for record in iter_records(builder.build())] == [99, 99]


def test_offsets_must_increase() -> None:
    builder = BatchBuilder(10)
    builder.append(1, None, None, offset=12)
    with pytest.raises(ValueError, match="not above"):
        builder.append(1, None, None, offset=12)
