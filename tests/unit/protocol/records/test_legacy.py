"""Message sets v0 and v1: layout, wrappers, and rejections."""

import zlib
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.compression import Codec, compress
from protocol.records.entries import iter_records
from protocol.records.errors import CorruptBatch, InvalidRecord, RecordsError, UnsupportedCodec
from protocol.records.legacy import parse_message, verify_message_crc
from protocol.records.legacy_builder import MessageSetBuilder, encode_message
from protocol.records.record import Record
from tests.support.scale import scaled

OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def test_v0_entry_has_the_documented_layout() -> None:
    """offset 8, size 4, crc 4, magic 1, attributes 1, key length 4, key, value length 4, value (S7.3 - S7.10)."""
    entry = encode_message(5, 0, 0, -1, b"key", b"value")

    assert len(entry) == 26 + 3 + 5
    assert entry[:8] == (5).to_bytes(8, "big")
    assert int.from_bytes(entry[8:12], "big") == len(entry) - 12
    assert int.from_bytes(entry[12:16], "big") == zlib.crc32(entry[16:])
    assert entry[16:18] == b"\0\0"
    assert entry[18:] == b"\0\0\0\3key\0\0\0\5value"


def test_null_key_is_a_length_of_minus_one() -> None:
    """Four bytes ff, and no key bytes follow (S7.9)."""
    assert encode_message(0, 0, 0, -1, None, b"")[18:22] == b"\xff\xff\xff\xff"


def test_v1_entry_is_eight_bytes_longer_for_its_timestamp() -> None:
    """Total 34 + K + N; the timestamp follows the attributes (S7.11)."""
    entry = encode_message(5, 1, 0, 1234, b"key", b"value")

    assert len(entry) == 34 + 3 + 5
    assert entry[18:26] == (1234).to_bytes(8, "big")
    assert parse_message(entry).timestamp == 1234


def test_v1_attribute_bit_3_is_log_append_time() -> None:
    """S7.12."""
    builder = MessageSetBuilder(1, log_append_time_ms=77)
    builder.append(5, b"k", b"v")
    entry = builder.build()

    assert entry[17] == 0x08
    assert next(iter_records(entry)).timestamp == 77


def test_wrapper_has_the_offset_of_its_last_message() -> None:
    """20 messages from 1000 on: wrapper at 1019, inner offsets 0..19, read as 1000..1019 (S9.6 - S9.8)."""
    builder = MessageSetBuilder(1, 1000, Codec.GZIP)
    for number in range(20):
        builder.append(number, None, b"v")
    entry = builder.build()

    wrapper = parse_message(entry)
    assert (wrapper.offset, wrapper.key, wrapper.codec, wrapper.timestamp) == (1019, None, Codec.GZIP, 19)
    assert [record.offset for record in iter_records(entry)] == list(range(1000, 1020))


def test_wrapper_with_log_append_time_applies_to_all() -> None:
    """S9.9; with CreateTime the inner timestamps are kept."""
    for append_time, expected in ((None, [5, 9]), (50, [50, 50])):
        builder = MessageSetBuilder(1, 0, Codec.LZ4, log_append_time_ms=append_time)
        builder.append(5, None, b"a")
        builder.append(9, None, b"b")
        assert [record.timestamp for record in iter_records(builder.build())] == expected


ROWS = st.lists(
    st.tuples(st.integers(0, 1 << 45), st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=40),
              st.integers(1, 4)),
    min_size=1, max_size=12,
)  # fmt: skip


@settings(max_examples=scaled(60))
@given(ROWS, st.sampled_from(OLD_CODECS), st.sampled_from([0, 1]), st.integers(0, 1 << 50))
def test_built_records_are_read_back(
    rows: list[tuple[int, bytes | None, bytes | None, int]], codec: Codec, magic: int, base_offset: int
) -> None:
    """Both formats, all their codecs, with gaps as compaction leaves them."""
    builder = MessageSetBuilder(magic, base_offset, codec)
    offset = base_offset - 1
    expected = []
    for timestamp, key, value, gap in rows:
        offset += gap
        builder.append(timestamp, key, value, offset=offset)
        expected.append(Record(offset, timestamp if magic else -1, key, value))
    data = builder.build()

    assert list(iter_records(data)) == expected
    message = parse_message(data)
    assert verify_message_crc(data, 0, message.size_bytes)
    assert message.codec == codec


def wrapper(inner: bytes, magic: int = 1, codec: int = Codec.GZIP) -> bytes:
    return encode_message(9, magic, codec, 1, None, compress(codec, inner))


def test_invalid_wrappers_are_rejected() -> None:
    """No value, nothing inside, a wrapper inside a wrapper, another magic byte inside."""
    plain = encode_message(0, 1, 0, 1, b"k", b"v")
    for entry in (
        encode_message(9, 1, Codec.GZIP, 1, None, None),
        wrapper(b""),
        wrapper(wrapper(plain)),
        wrapper(plain, magic=0),
    ):
        with pytest.raises(InvalidRecord):
            list(iter_records(entry))


def test_old_formats_do_not_support_zstd() -> None:
    with pytest.raises(UnsupportedCodec):
        list(iter_records(wrapper(b"", codec=Codec.ZSTD)))
    with pytest.raises(UnsupportedCodec):
        MessageSetBuilder(1, codec=Codec.ZSTD)


def test_fields_must_fill_their_entry() -> None:
    entry = encode_message(0, 0, 0, -1, b"key", b"value")
    longer_key = entry[:18] + (900).to_bytes(4, "big") + entry[22:]
    shorter_value = entry[:25] + (2).to_bytes(4, "big") + entry[29:]
    for damaged in (longer_key, shorter_value, entry[:20]):
        with pytest.raises(CorruptBatch):
            parse_message(damaged)


@settings(max_examples=scaled(200))
@given(st.integers(0, 200), st.integers(0, 255), st.sampled_from(OLD_CODECS), st.sampled_from([0, 1]))
def test_one_wrong_byte_gives_records_or_a_records_error(at: int, byte: int, codec: Codec, magic: int) -> None:
    builder = MessageSetBuilder(magic, 5, codec)
    for number in range(4):
        builder.append(number, b"key", b"value")
    data = bytearray(builder.build())
    data[at % len(data)] = byte
    with suppress(RecordsError):
        list(iter_records(data, max_size=1 << 16))
