"""Decoding records: inconsistent bytes are errors, never wrong records or a full memory."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.batch import HEADER, HEADER_SIZE, parse_header
from protocol.records.builder import BatchBuilder
from protocol.records.entries import iter_records
from protocol.records.errors import CorruptBatch, InvalidRecord, RecordsError, UnreadableLength
from protocol.records.record import _decode_any_record, decode_record, encode_record, iter_batch_records, skim_records
from protocol.records.varint import encode_varint
from tests.support.scale import scaled


def batch_of(records: bytes, count: int = 1) -> bytes:
    """Return a batch with these bytes as its records."""
    header = HEADER.pack(0, HEADER_SIZE - 12 + len(records), 0, 2, 0, 0, count - 1, 0, 0, -1, -1, -1, count)
    return header + records


def test_record_fields_are_in_the_documented_order() -> None:
    """length, attributes, timestamp delta, offset delta, key, value, headers (S8.2)."""
    assert encode_record(2, 3, b"k", None, (("h", b"v"),)) == bytes(
        [2 * 11, 0, 6, 4, 2, ord("k"), 1, 2, 2, ord("h"), 2, ord("v")]
    )


@pytest.mark.parametrize(
    ("records", "count"),
    [
        (encode_record(0, 0, b"k", b"v"), 2),  # fewer than counted
        (encode_record(0, 0, b"k", b"v") * 2, 1),  # more than counted
        (encode_record(0, 0, b"k", b"v")[:-1], 1),  # cut off
        (encode_varint(-5) + b"12345678", 1),  # a negative length
        (encode_varint(3) + b"\0\0\0" + encode_varint(1000) + b"k", 1),  # a key past the end
        (bytes([14, 0, 0, 0, 1, 1, 0, 0]), 1),  # fields that end before the record
        (bytes([12, 0, 0, 0, 1, 1]) + encode_varint(1000000)[:1], 1),  # a header count cut off
        (bytes([16, 0, 0, 0, 1, 1]) + encode_varint(100000), 1),  # more headers than bytes
        (bytes([14, 0, 0, 0, 1, 1, 2, 1]), 1),  # a header with a null key
    ],
)
def test_inconsistent_batches_are_rejected(records: bytes, count: int) -> None:
    with pytest.raises(InvalidRecord):
        list(iter_records(batch_of(records, count)))


@pytest.mark.parametrize(("size", "error"), [(4, InvalidRecord), (5, UnreadableLength), (9, UnreadableLength)])
def test_invalid_length_differs_from_a_truncated_one(size: int, error: type[InvalidRecord]) -> None:
    """Kafka reports an unknown error for one and an invalid record for the other."""
    with pytest.raises(InvalidRecord) as caught:
        list(iter_records(batch_of(b"\xff" * size)))
    assert type(caught.value) is error


@settings(max_examples=scaled(300))
@given(
    st.binary(max_size=3),
    st.integers(0, 20_000),
    st.integers(-20_000, 20_000),
    st.none() | st.sampled_from([0, 1, 63, 64, 8191, 8192]).map(bytes) | st.binary(max_size=80),
    st.none() | st.sampled_from([0, 1, 63, 64, 8191, 8192]).map(bytes) | st.binary(max_size=80),
    st.sampled_from([(), (("h", b"v"),)]),
)
def test_fast_path_decodes_the_same_record(before, offset_delta, time_delta, key, value, headers) -> None:
    """Numbers of one, two and three bytes, followed by another record."""
    record = encode_record(offset_delta, time_delta, key, value, headers)
    data = before + record + b"\x0a"
    expected = time_delta, offset_delta, key, value, headers, len(before) + len(record)
    assert decode_record(data, len(before)) == expected == _decode_any_record(data, len(before))


def test_record_without_a_key_uses_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """All records of the metadata log are such."""
    monkeypatch.setattr("protocol.records.record._decode_any_record", None)
    record = encode_record(1, 2, None, b"v")
    assert decode_record(record, 0) == (2, 1, None, b"v", (), len(record))


@settings(max_examples=scaled(500))
@given(st.binary(max_size=12), st.integers(0, 11), st.integers(0, 255))
def test_fast_path_agrees_on_arbitrary_bytes(rest: bytes, at: int, byte: int) -> None:
    """Both reject it with the same message, or both accept it."""
    for data in (rest, encode_record(0, 0, b"k", b"v")[:at] + bytes([byte]) + rest):
        answers = []
        for decode in (decode_record, _decode_any_record):
            try:
                answers.append(str(decode(data, 0)))
            except InvalidRecord as error:
                answers.append(repr(error))
        assert answers[0] == answers[1]


def skimmed(records: bytes, count: int = 1) -> list[tuple[int, int, bool]]:
    batch = batch_of(records, count)
    return [(r.offset, r.timestamp, r.key is not None) for r in skim_records(batch, parse_header(batch))]


def test_skimming_returns_offset_time_and_key() -> None:
    """Whatever the content of the records and their declared length."""
    records = encode_record(0, 5, b"k", b"v", (("h", b"x"), ("", None))) + encode_record(3, 7, None, None)
    assert skimmed(records, 2) == [(0, 5, True), (3, 7, False)]
    assert skimmed(b"\x02" + records[1:], 2) == [(0, 5, True), (3, 7, False)]


@pytest.mark.parametrize(
    "records",
    [
        encode_record(0, 0, b"k", b"v")[:-1],
        encode_record(0, 0, b"k", b"v") + b"\0",
        bytes([14, 0, 0, 0, 40, 1, 0, 0]),
        bytes([14, 0, 0, 0, 1, 1, 1]),
        bytes([14, 0, 0, 0, 1, 1, 2, 1, 1]),
    ],
    ids=["cut off", "a byte left", "a key past the end", "negative header count", "a header without a key"],
)
def test_skimming_rejects_inconsistent_batches(records: bytes) -> None:
    with pytest.raises(InvalidRecord):
        skimmed(records)


def test_unknown_magic_is_rejected() -> None:
    data = bytearray(batch_of(b""))
    data[16] = 3
    with pytest.raises(CorruptBatch, match="magic 3"):
        list(iter_records(data))


@settings(max_examples=scaled(300))
@given(st.binary(max_size=60), st.integers(-1, 5), st.integers(0, 7))
def test_random_records_give_records_or_a_records_error(records: bytes, count: int, codec: int) -> None:
    data = bytearray(batch_of(records, count))
    data[22] = codec
    with suppress(RecordsError):
        list(iter_batch_records(data, max_size=1 << 16))


@settings(max_examples=scaled(200))
@given(st.integers(0, 200), st.integers(0, 255))
def test_one_wrong_byte_gives_records_or_a_records_error(at: int, byte: int) -> None:
    builder = BatchBuilder()
    for number in range(5):
        builder.append(number, b"key", b"value", (("h", b"x"),))
    data = bytearray(builder.build())
    data[at % len(data)] = byte
    with suppress(RecordsError):
        list(iter_records(data))


def test_overflowing_timestamp_equals_that_of_java() -> None:
    """64-bit sums wrap there, so every delta gives a timestamp that can be written."""
    builder = BatchBuilder()
    for timestamp in (1000, 1001):
        builder.append(timestamp, b"k", b"v")
    batch = bytearray(builder.build())
    batch[27:35] = (2**63 - 1).to_bytes(8, "big")  # baseTimestamp
    header = parse_header(batch)

    for records in (iter_batch_records(batch, header), skim_records(batch, header)):
        assert [record.timestamp for record in records] == [2**63 - 1, -(2**63)]
