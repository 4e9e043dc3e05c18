"""Validation of appends: every rejection as in Apache Kafka 4.3.1, and rewritten records."""

import gzip
import pickle
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from protocol.records.batch import CONTROL_BIT, HEADER_SIZE, TIMESTAMP_TYPE_BIT, compute_crc, parse_header, verify_crc
from protocol.records.compression import Codec
from protocol.records.entries import iter_records
from protocol.records.record import encode_record
from storage.append.header_validation import AppendOrigin, check_batch, must_open
from storage.append.record_validation import open_batch
from storage.errors import (
    AppendRefused,
    CorruptRecords,
    InvalidRecords,
    InvalidTimestamp,
    RecordTooLarge,
    TooMuchToOpen,
    UnknownCodec,
    UnreadableRecords,
)
from storage.log_config import LogConfig
from tests.support.logs import T0, batch, idempotent, marker

CLIENT, COORDINATOR = AppendOrigin.CLIENT, AppendOrigin.COORDINATOR


def check(records: bytes | bytearray, config: LogConfig | None = None, origin: AppendOrigin = CLIENT) -> object:
    return check_batch(memoryview(records), config or LogConfig(), origin, T0)


def changed(at: int, value: bytes, records: bytearray | None = None) -> bytearray:
    """Return a batch with changed header bytes and the right checksum."""
    records = records or batch(b"a", b"b")
    records[at : at + len(value)] = value
    records[17:21] = compute_crc(records, 0, len(records)).to_bytes(4, "big")
    return records


def int32(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


REFUSED: list[tuple[str, bytes | bytearray, type[AppendRefused]]] = [
    ("nothing", b"", InvalidRecords),
    ("a few bytes", b"\0" * 11, InvalidRecords),
    ("half a batch", batch()[:-1], InvalidRecords),
    ("half a header", batch()[:40], InvalidRecords),
    ("two batches", batch() + batch(), InvalidRecords),
    ("base offset not 0", changed(0, (5).to_bytes(8, "big")), InvalidRecords),
    ("wrong checksum", batch()[:-1] + b"x", CorruptRecords),
    ("length 13", changed(8, int32(13)), CorruptRecords),
    ("negative length", changed(8, int32(-5)), CorruptRecords),
    ("length below a header", changed(8, int32(40))[:52], CorruptRecords),
    ("magic 3", changed(16, b"\x03"), CorruptRecords),
    ("magic 255", changed(16, b"\xff"), CorruptRecords),
    ("magic 1", changed(16, b"\x01"), InvalidRecords),
    ("magic 0", changed(16, b"\x00"), InvalidRecords),
    ("a second with length 3", batch() + bytes(8) + int32(3) + bytes(5), CorruptRecords),
    ("zeros behind it", batch() + bytes(16), CorruptRecords),
    ("half of a second with magic 9", batch() + bytes(8) + int32(200) + b"\0\0\0\0\x09", CorruptRecords),
    ("codec 5", changed(21, b"\x00\x05"), UnknownCodec),
    ("control bit", changed(21, CONTROL_BIT.to_bytes(2, "big")), InvalidRecords),
    ("count above the offsets", changed(57, int32(3)), InvalidRecords),
    ("count below the offsets", changed(57, int32(1)), InvalidRecords),
    ("count 0", changed(57, int32(0)), InvalidRecords),
    ("negative count", changed(57, int32(-1)), InvalidRecords),
    ("negative last offset delta", changed(23, int32(-1)), InvalidRecords),
    ("more records than bytes", changed(57, int32(1000), changed(23, int32(999))), InvalidRecords),
    ("producer without sequence", idempotent(-1), InvalidRecords),
    ("an hour ahead", batch(timestamp=T0 + 3_600_001), InvalidTimestamp),
    ("the end of time", changed(35, ((1 << 63) - 1).to_bytes(8, "big")), InvalidTimestamp),
]


@pytest.mark.parametrize(("records", "error"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_invalid_headers_are_rejected(records: bytearray, error: type[AppendRefused]) -> None:
    """Header checks: docs/decisions/header-validation.md."""
    with pytest.raises(AppendRefused) as caught:
        check(records)
    assert type(caught.value) is error


@pytest.mark.parametrize("trailing", [b"", b"\0", bytes(11), bytes(8) + int32(200) + bytes(10)])
def test_trailing_bytes_without_a_whole_entry_are_ignored(trailing: bytes) -> None:
    """Kafka trims them too."""
    records = batch(b"one")
    assert check(records + trailing).size_bytes == len(records)  # type: ignore[attr-defined]


def test_coordinator_may_write_control_records_at_any_offset() -> None:
    """Transaction markers are control records."""
    assert check(marker(commit=True), origin=COORDINATOR)
    assert check(changed(0, (5).to_bytes(8, "big")), origin=COORDINATOR)


def test_batch_above_max_message_bytes_is_too_large() -> None:
    """The limit applies to the whole batch, including its header."""
    records = batch(bytes(100))
    assert check(records, LogConfig(max_message_bytes=len(records)))
    with pytest.raises(RecordTooLarge) as caught:
        check(records, LogConfig(max_message_bytes=len(records) - 1))
    assert (caught.value.size_bytes, caught.value.limit_bytes) == (len(records), len(records) - 1)


@pytest.mark.parametrize(
    ("timestamp", "accepted"),
    [(T0 - 1000, True), (T0 - 1001, False), (T0 + 1000, True), (T0 + 1001, False), (-1, True)],
)
def test_timestamp_must_be_within_the_limits(timestamp: int, accepted: bool) -> None:
    """S12.3: message.timestamp.before.max.ms and after.max.ms, to the millisecond; a missing timestamp is valid."""
    config = LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=1000)
    if accepted:
        assert check(batch(timestamp=timestamp), config)
    else:
        with pytest.raises(InvalidTimestamp) as caught:
            check(batch(timestamp=timestamp), config)
        assert [error.batch_index for error in caught.value.record_errors] == [0]
        assert str(timestamp) in caught.value.record_errors[0].message
    assert check(batch(timestamp=timestamp), LogConfig(message_timestamp_type="LogAppendTime"))


def test_rejected_timestamps_name_their_records() -> None:
    """KIP-467: the response names the records, also of a compressed batch."""
    for codec in (Codec.NONE, Codec.ZSTD):
        records = batch(b"0", b"1", b"2", timestamp=T0 + 3_599_999, codec=codec)
        with pytest.raises(InvalidTimestamp) as caught:
            check(records)
        assert [error.batch_index for error in caught.value.record_errors] == [2]


def test_client_must_not_set_log_append_time_where_broker_does() -> None:
    """On other topics the bit is cleared (test_partition_log)."""
    records = changed(21, TIMESTAMP_TYPE_BIT.to_bytes(2, "big"))
    assert check(records)
    with pytest.raises(InvalidTimestamp) as caught:
        check(records, LogConfig(message_timestamp_type="LogAppendTime"))
    assert [error.batch_index for error in caught.value.record_errors] == [0, 1]


# -- record by record ----------------------------------------------------------------------------------------------


def opened(records: bytes | bytearray, config: LogConfig) -> bytes | None:
    return open_batch(memoryview(records), parse_header(records), config, T0)


COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
FULL = LogConfig(record_validation="full")


@pytest.mark.parametrize(
    ("config", "codec", "opens"),
    [
        (LogConfig(), Codec.GZIP, False),
        (COMPACTED, Codec.NONE, True),
        (FULL, Codec.NONE, True),
        (LogConfig(compression_type="gzip"), Codec.GZIP, False),
        (LogConfig(compression_type="gzip"), Codec.NONE, True),
        (LogConfig(compression_type="uncompressed"), Codec.NONE, False),
        (LogConfig(compression_type="uncompressed"), Codec.LZ4, True),
    ],
)
def test_records_are_inspected_only_if_necessary(config: LogConfig, codec: Codec, opens: bool) -> None:
    """Batches of the broker itself are never inspected."""
    header = parse_header(batch(codec=codec))
    assert must_open(header, config, CLIENT) is opens
    assert must_open(header, config, COORDINATOR) is False


def test_very_many_records_are_rejected_unread() -> None:
    """MESSAGE_TOO_LARGE makes the producer split its batch."""
    records = changed(HEADER_SIZE - 4, int32((1 << 20) + 1))
    with pytest.raises(TooMuchToOpen, match="1048577 records"):
        opened(records, COMPACTED)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_records_decompress_within_a_limit(codec: Codec) -> None:
    """A batch that shrinks further was constructed to do so; the worker needs its memory for others."""
    records = batch(bytes(5 << 20), key=b"k", codec=codec)
    assert opened(records, COMPACTED) is None
    with pytest.raises(TooMuchToOpen, match="more than 4194304 bytes"):
        opened(records, replace(COMPACTED, max_message_bytes=60_000))


def test_only_some_of_many_invalid_records_are_named() -> None:
    """The response has the total number: a response that names a million records would block the event loop."""
    records = batch(*[b"v"] * 1500)
    with pytest.raises(InvalidRecords, match="due to 1500 record errors") as caught:
        opened(records, COMPACTED)
    assert (len(caught.value.record_errors), caught.value.error_count) == (1000, 1500)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.error_count) == (str(caught.value), 1500)


@pytest.mark.parametrize("codec", list(Codec))
def test_compacted_topic_needs_keys(codec: Codec) -> None:
    """Every record without a key is named."""
    assert opened(batch(b"a", key=b"k", codec=codec), COMPACTED) is None
    with pytest.raises(InvalidRecords) as caught:
        opened(batch(b"a", b"b", codec=codec), COMPACTED)
    assert [error.batch_index for error in caught.value.record_errors] == [0, 1]
    assert str(caught.value).startswith("One or more records have been rejected due to 2 record errors in total")


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_batch_is_recompressed_with_the_topic_codec(source: Codec, target: str) -> None:
    """S9.3-S9.5: header and records are kept, except for the codec."""
    records = idempotent(4, 3, codec=source, transactional=True)
    rewritten = opened(records, LogConfig(compression_type=target))
    wanted = Codec.NONE if target == "uncompressed" else Codec[target.upper()]
    if wanted == source:
        assert rewritten is None
        return
    assert rewritten is not None
    before, after = parse_header(records), parse_header(rewritten)
    assert after.codec == wanted
    fields = ("producer_id", "producer_epoch", "base_sequence", "record_count", "base_timestamp", "max_timestamp")
    assert [getattr(before, field) for field in fields] == [getattr(after, field) for field in fields]
    assert after.is_transactional
    assert list(iter_records(bytes(records))) == list(iter_records(rewritten))


@pytest.mark.parametrize(
    ("key", "error"), [(b"k", InvalidTimestamp), (None, InvalidRecords)], ids=["with keys", "without keys"]
)
def test_missing_keys_are_reported_before_log_append_time(key: bytes | None, error: type[Exception]) -> None:
    """On a compacted topic with LogAppendTime, because each record is inspected."""
    config = LogConfig(cleanup_policy=frozenset({"compact"}), message_timestamp_type="LogAppendTime")
    records = changed(21, TIMESTAMP_TYPE_BIT.to_bytes(2, "big"), batch(b"a", key=key))
    assert check(records, config)
    with pytest.raises(error):
        opened(records, config)


@pytest.mark.parametrize(
    "fields",
    [{"producer_id": 5, "base_sequence": 0}, {"producer_id": -5, "producer_epoch": 0}],
    ids=["no epoch", "no sequence"],
)
def test_recompressed_batch_needs_all_producer_fields(fields: dict[str, int]) -> None:
    """Kafka accepts such batches as they are, and fails when it writes the header itself."""
    records = batch(b"a", key=b"k", **fields)
    assert opened(records, COMPACTED) is None
    with pytest.raises(UnreadableRecords):
        opened(records, LogConfig(compression_type="gzip"))


@pytest.mark.parametrize(
    ("codec", "worst", "best"), [("gzip", 1, 9), ("lz4", 9, 17), ("zstd", -131072, 22)], ids=["gzip", "lz4", "zstd"]
)
def test_compression_levels_apply(codec: str, worst: int, best: int) -> None:
    """KIP-390; the default level 9 of lz4 is its fast mode, as before levels existed."""
    words = random.Random(1).choices([b"%x" % (number * number) for number in range(2000)], k=3000)
    records = batch(b" ".join(words), key=b"k")
    sizes = []
    for level in (worst, best):
        config = replace(LogConfig(compression_type=codec), **{f"compression_{codec}_level": level})
        rewritten = opened(records, config)
        assert rewritten is not None
        assert [record.value for record in iter_records(rewritten)] == [b" ".join(words)]
        sizes.append(len(rewritten))
    assert sizes[1] < sizes[0] * 0.97


def test_batch_that_grows_too_large_is_rejected() -> None:
    """max.message.bytes applies to the stored batch too."""
    records = batch(bytes(5000), codec=Codec.GZIP)
    with pytest.raises(RecordTooLarge):
        opened(records, LogConfig(compression_type="uncompressed", max_message_bytes=1000))


def lie(change: Callable[[bytearray], None], codec: Codec = Codec.NONE) -> bytearray:
    records = batch(b"aaaa", b"bbbb", codec=codec)
    change(records)
    return changed(0, bytes(8), records)


def scrambled(records: bytearray) -> None:
    records[HEADER_SIZE:] = b"\xff" * (len(records) - HEADER_SIZE)


def count_two_more(records: bytearray) -> None:
    records[57:61], records[23:27] = int32(4), int32(3)


def one_fewer(records: bytearray) -> None:
    records[57:61], records[23:27] = int32(1), int32(0)


@pytest.mark.parametrize("change", [scrambled, count_two_more, one_fewer])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.ZSTD])
def test_full_validation_detects_inconsistent_records(change: Callable[[bytearray], None], codec: Codec) -> None:
    """pybroker.record.validation=full inspects records as Apache Kafka always does."""
    records = lie(change, codec)
    with pytest.raises((InvalidRecords, UnreadableRecords)):
        opened(records, FULL)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_full_validation_corrects_the_largest_timestamp(codec: Codec) -> None:
    """Kafka computes it from the records."""
    records = changed(35, (T0 + 500).to_bytes(8, "big"), batch(b"a", b"b", codec=codec))
    rewritten = opened(records, FULL)
    assert rewritten is not None
    assert parse_header(rewritten).max_timestamp == T0 + 1
    assert verify_crc(rewritten, 0, len(rewritten))


def test_gaps_in_compressed_offsets_are_rejected() -> None:
    """Kafka fails on them with an unknown error, but accepts them in uncompressed batches."""
    records = gzip.compress(encode_record(1, 0, b"k", b"v"))
    header = bytes(batch(b"a", codec=Codec.GZIP)[:HEADER_SIZE])
    lying = changed(8, int32(HEADER_SIZE - 12 + len(records)), bytearray(header + records))
    with pytest.raises(UnreadableRecords):
        opened(lying, FULL)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("stored", ["producer", "uncompressed"])
def test_large_records_in_compressed_batches(codec: str, stored: str) -> None:
    """The text and the size are Apache Kafka 4.4's: a key of 1 byte and a value of 993 make a record of 1001."""
    config = LogConfig(compression_type=stored, max_decompressed_message_bytes=1000)
    for size, fits in ((992, True), (993, False)):
        records = memoryview(bytes(batch(b"\0" * size, codec=Codec[codec.upper()], key=b"k")))
        header = parse_header(records)
        assert must_open(header, config, CLIENT)
        if fits:
            open_batch(records, header, config, T0)
            continue
        message = "Invalid record size: 1001 exceeds the configured maximum record size of 1000."
        with pytest.raises(InvalidRecords, match=f"^{message}$"):
            open_batch(records, header, config, T0)


def test_the_size_of_records_is_limited_only_if_it_is_set_and_they_are_compressed() -> None:
    header = parse_header(batch(b"a" * 2000))
    assert not must_open(header, LogConfig(max_decompressed_message_bytes=1000), CLIENT)
    packed = parse_header(batch(b"a" * 2000, codec=Codec.ZSTD))
    assert not must_open(packed, LogConfig(), CLIENT)
    assert not must_open(packed, LogConfig(max_decompressed_message_bytes=1000), COORDINATOR)
