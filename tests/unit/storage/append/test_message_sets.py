"""Conversion of messages v0 and v1 to a batch, with the rejections of Apache Kafka 3.9.1."""

import tracemalloc
import zlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.records.batch import parse_header, verify_crc
from protocol.records.compression import Codec, compress
from protocol.records.entries import iter_records
from protocol.records.errors import CorruptBatch
from protocol.records.legacy_builder import MessageSetBuilder, encode_message
from protocol.records.record import Record
from storage.append import message_sets
from storage.append.message_sets import are_messages, batch_of_messages, has_whole_message
from storage.errors import (
    AppendRefused,
    CorruptRecords,
    InvalidRecords,
    InvalidTimestamp,
    RecordTooLarge,
    TooMuchToOpen,
    UnreadableRecords,
)
from storage.log_config import LogConfig
from tests.support.logs import T0
from tests.support.scale import scaled

OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def messages(magic: int, count: int = 3, codec: int = Codec.NONE, *, key: bytes | None = b"k", **of: object) -> bytes:
    builder = MessageSetBuilder(magic, 0, codec, **of)
    for number in range(count):
        builder.append(T0 + number, key, b"value-%d" % number)
    return builder.build()


def wrapper(inner: bytes, magic: int = 1, codec: int = Codec.GZIP, offset: int = 1) -> bytes:
    return encode_message(offset, magic, codec, T0, None, compress(codec, inner))


def converted(records: bytes, **config: object) -> bytes:
    return batch_of_messages(records, replace(LogConfig(), **config), T0)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_messages_become_one_batch_of_their_codec(magic: int, codec: Codec) -> None:
    """Offsets start at 0; timestamps are kept, and v0 has none (S7.2, S12.1)."""
    batch = converted(messages(magic, codec=codec))

    header = parse_header(batch)
    assert (header.magic, header.base_offset, header.record_count, header.codec) == (2, 0, 3, codec)
    assert verify_crc(batch, 0, len(batch))
    times = [T0, T0 + 1, T0 + 2] if magic else [-1, -1, -1]
    assert header.max_timestamp == times[-1]
    assert list(iter_records(batch)) == [Record(n, times[n], b"k", b"value-%d" % n) for n in range(3)]


def test_sizes_of_ten_records_in_each_format() -> None:
    """10 records of 6 bytes: v0 320, v1 400, v2 in one batch 191, in ten batches 740 bytes (S8.8)."""
    sets = []
    for magic in (0, 1):
        builder = MessageSetBuilder(magic)
        for number in range(10):
            builder.append(T0 + number, b"key", b"val")
        sets.append(builder.build())
    alone = encode_message(0, 1, 0, T0, b"key", b"val")

    assert [len(each) for each in sets] == [320, 400]
    assert [len(converted(each)) for each in sets] == [191, 191]
    assert 10 * len(converted(alone)) == 740


def test_topic_codec_applies_to_messages() -> None:
    """compression.type applies as for batches."""
    assert parse_header(converted(messages(1, codec=Codec.GZIP), compression_type="lz4")).codec == Codec.LZ4
    assert parse_header(converted(messages(0), compression_type="zstd")).codec == Codec.ZSTD
    assert parse_header(converted(messages(1, codec=Codec.GZIP), compression_type="uncompressed")).codec == Codec.NONE


def test_offsets_of_messages_do_not_matter() -> None:
    """Some versions of librdkafka send wrappers with offset 0; other clients send any offset that is high enough."""
    for offset in (0, 2, 99):
        assert len(list(iter_records(converted(wrapper(messages(1), offset=offset))))) == 3
    with pytest.raises(InvalidRecords):
        converted(wrapper(messages(1), offset=1))


def test_incomplete_message_at_the_end_is_ignored() -> None:
    """An incomplete entry at the end is ignored, as for batches."""
    assert parse_header(converted(messages(1) + messages(1)[:-1])).record_count == 5
    assert has_whole_message(messages(0, 1))
    assert not has_whole_message(messages(0, 1)[:-1])
    assert not has_whole_message(b"")


def test_magic_distinguishes_messages_from_batches() -> None:
    """The magic byte is at position 16 (S7.1, S7.7)."""
    assert are_messages(messages(0))
    assert are_messages(messages(1))
    assert not are_messages(converted(messages(1)))
    assert are_messages(b"")


def _long_key() -> bytes:
    entry = bytearray(encode_message(0, 1, 0, T0, b"key", b"value"))
    entry[26:30] = (900).to_bytes(4, "big")
    entry[12:16] = zlib.crc32(entry[16:]).to_bytes(4, "big")
    return bytes(entry)


def _damaged(records: bytes, at: int) -> bytes:
    damaged = bytearray(records)
    damaged[at] ^= 1
    return bytes(damaged)


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (_damaged(messages(1), -1), CorruptRecords),
        (_damaged(messages(1, codec=Codec.GZIP), -3), CorruptRecords),
        (messages(1, 1) + bytes(8) + b"\0\0\0\5" + bytes(40), CorruptRecords),
        (wrapper(_damaged(messages(1, 2), -1)), CorruptRecords),
        (wrapper(messages(0, 2)), InvalidRecords),
        (wrapper(messages(1, 2, Codec.GZIP)), InvalidRecords),
        (wrapper(b""), InvalidRecords),
        (encode_message(0, 1, Codec.GZIP, T0, None, None), InvalidRecords),
        (encode_message(0, 1, Codec.ZSTD, T0, None, b"x"), InvalidRecords),
        (messages(1, 2, Codec.GZIP) * 2, InvalidRecords),
        (messages(1, 2) + messages(1, 2, Codec.GZIP), InvalidRecords),
        (messages(0, 2) + messages(1, 2), InvalidRecords),
        (encode_message(0, 1, Codec.GZIP, T0, None, b"no gzip"), UnreadableRecords),
        (encode_message(0, 0, 7, T0, None, b"x"), UnreadableRecords),
        (encode_message(0, 1, 0, -5, None, b"x"), UnreadableRecords),
        (_long_key(), UnreadableRecords),
        (encode_message(0, 1, 0, T0 + 2 * 3_600_000, None, b"x"), InvalidTimestamp),
    ],
)
def test_invalid_messages_are_rejected(records: bytes, error: type[AppendRefused]) -> None:
    """Wrong checksums, also of inner messages (S7.6); mixed formats; invalid wrappers and several wrappers."""
    with pytest.raises(AppendRefused) as caught:
        converted(records)
    assert type(caught.value) is error


@pytest.mark.parametrize("magic", [0, 1])
def test_wrapper_of_very_many_messages_is_rejected_unread(magic: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """65 KB of them would keep a worker busy for half a minute and need a gigabyte."""
    assert message_sets._MOST_MESSAGES <= 1 << 18
    monkeypatch.setattr(message_sets, "_MOST_MESSAGES", 999)
    tiny = encode_message(0, magic, 0, T0, None, None)
    for records in (wrapper(tiny * 1000, magic), tiny * 1000):
        with pytest.raises(TooMuchToOpen, match="more than 999 messages"):
            converted(records)
    assert parse_header(converted(tiny * 999)).record_count == 999


def test_wrapper_decompresses_within_a_limit() -> None:
    """Data that shrinks further was constructed to do so."""
    large = wrapper(encode_message(0, 1, 0, T0, None, bytes(5 << 20)), offset=0)
    assert converted(large)
    with pytest.raises(TooMuchToOpen, match="more than 4194304 bytes"):
        converted(large, max_message_bytes=len(large))


def test_messages_are_not_all_in_memory_at_once() -> None:
    """Neither the decompressed messages nor their records are all in memory at once."""
    inner = encode_message(0, 1, 0, T0, None, None) * 5_000
    bomb = wrapper(inner, offset=0)
    converted(bomb)
    tracemalloc.start()
    assert parse_header(converted(bomb)).record_count == 5_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000 * 150


def test_topic_limits_apply_to_messages() -> None:
    """Missing keys, timestamps and sizes are rejected, of a single message and of the resulting batch."""
    with pytest.raises(InvalidRecords):
        converted(messages(1, key=None), cleanup_policy=frozenset({"compact"}))
    with pytest.raises(InvalidTimestamp):
        batch_of_messages(messages(1), LogConfig(message_timestamp_before_max_ms=1000), T0 + 5000)
    batch_of_messages(messages(0), LogConfig(message_timestamp_before_max_ms=1000), T0 + 5000)
    with pytest.raises(InvalidTimestamp):
        converted(messages(1, log_append_time_ms=T0), message_timestamp_type="LogAppendTime")
    converted(messages(1, log_append_time_ms=T0))
    with pytest.raises(RecordTooLarge):
        converted(encode_message(0, 1, 0, T0, None, bytes(500)), max_message_bytes=400)
    with pytest.raises(RecordTooLarge):
        converted(messages(1, 30, key=bytes(100)), max_message_bytes=2000)
    converted(messages(1, 30, Codec.GZIP, key=bytes(100)), max_message_bytes=2000)


@settings(max_examples=scaled(200))
@given(
    st.sampled_from([0, 1]),
    st.sampled_from(OLD_CODECS),
    st.lists(st.tuples(st.integers(12, 200), st.integers(0, 255)), max_size=3),
    st.booleans(),
    st.sampled_from(["CreateTime", "LogAppendTime"]),
)
def test_damaged_messages_become_a_batch_or_are_rejected(
    magic: int, codec: Codec, changes: list[tuple[int, int]], summed: bool, timestamp_type: str
) -> None:
    """Damaged content with a right or wrong checksum raises no other error, and a resulting batch is valid."""
    damaged = bytearray(messages(magic, codec=codec))
    for at, byte in changes:
        damaged[at % len(damaged)] = byte
    if summed:
        size = int.from_bytes(damaged[8:12], "big") + 12
        damaged[12:16] = zlib.crc32(damaged[16:size]).to_bytes(4, "big")
    try:
        if are_messages(damaged) and has_whole_message(damaged):
            batch = converted(bytes(damaged), message_timestamp_type=timestamp_type)
            assert len(list(iter_records(batch))) == parse_header(batch).record_count
    except (AppendRefused, CorruptBatch):
        pass
