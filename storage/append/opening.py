"""Batches whose records have to be looked at, or written anew, before they are appended.

For compacted topics (each record needs a key), for a compression.type other than the producer's, and with record
validation `full`. All of it is pure, a record at a time, and slow: a small batch is opened where it is appended, a
larger one in a worker, whose result comes back to the append as `Opened`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from protocol.records.batch import (
    CREATE_TIME,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    parse_header,
    patch_timestamp,
)
from protocol.records.builder import BatchBuilder
from protocol.records.compression import DEFAULT_MAX_SIZE, Codec
from protocol.records.errors import CorruptBatch, InvalidRecord, TooLarge, UnreadableLength
from protocol.records.record import Record, iter_batch_records, skim_records
from storage.errors import (
    InvalidRecords,
    InvalidTimestamp,
    RecordError,
    RecordTooLarge,
    TooMuchToOpen,
    UnreadableRecords,
)
from storage.log_config import LONG_MAX, LogConfig

#: A batch with more records, or more bytes to unpack or pack, is opened in a worker: inline it would keep the loop for
#: longer than a worker's answer takes, some 0.3 ms.
_INLINE_RECORDS, _INLINE_BYTES = 64, 16 << 10
#: Nobody knows what compressed records grow to: those that need more than this go to a worker, too.
_INLINE_UNPACKED_BYTES = 64 << 10
#: The most records of a batch that are looked at: they take a worker some seconds.
_MOST_RECORDS = 1 << 20
#: Records may unpack to so many times max.message.bytes, where that counts as no less than _LEAST_BYTES.
_SHRINKS, _LEAST_BYTES = 64, 64 << 10
#: How many wrong records are told of one by one; the others are only counted.
_TOLD_ERRORS = 1000

_CODECS = {"uncompressed": Codec.NONE, **{codec.name.lower(): codec for codec in Codec if codec}}
#: The level of lz4 that stands for its fast mode, as it did before there were levels (KIP-390).
_LZ4_DEFAULT_LEVEL = 9


class BatchToOpen(Exception):
    """The append has to be given what `open_in_worker` makes of its batch. Nothing has changed."""


class Opened(msgspec.Struct, frozen=True):
    """What a worker made of a batch, under a configuration: written anew, fine as it is, or refused."""

    config: LogConfig
    batch: bytes | None = None
    error: Exception | None = None


def is_for_worker(header: BatchHeader, config: LogConfig) -> bool:
    """Whether a batch that has to be opened is too much for the loop, as far as its header tells."""
    if header.record_count > _INLINE_RECORDS:
        return True
    packs = header.codec != Codec.NONE or target_codec(config, header.codec) != Codec.NONE
    return packs and header.size_bytes > _INLINE_BYTES


def open_inline(
    records: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, opened: Opened | None
) -> bytes | None:
    """`open_batch` for an append: of a small batch, or its result as it was `opened` before. Raises BatchToOpen too."""
    if opened is not None and opened.config == config:
        if opened.error is not None:
            raise opened.error
        return opened.batch
    if is_for_worker(header, config):
        raise BatchToOpen
    try:
        return open_batch(records, header, config, now_ms, _INLINE_UNPACKED_BYTES)
    except TooMuchToOpen:
        raise BatchToOpen from None


def open_in_worker(records: bytes, config: LogConfig, now_ms: int) -> bytes | None:
    """`open_batch`, to be called in a worker."""
    return open_batch(memoryview(records), parse_header(records), config, now_ms)


def target_codec(config: LogConfig, source: int) -> int:
    """The codec that a batch shall have in the log (KIP-390 keeps a batch of the right codec, whatever its level)."""
    return source if config.compression_type == "producer" else _CODECS[config.compression_type]


def unpacked_limit(config: LogConfig) -> int:
    """How many bytes the records of a compressed batch may have that is opened: no client's batch shrinks further."""
    return min(max(config.max_message_bytes, _LEAST_BYTES) * _SHRINKS, DEFAULT_MAX_SIZE)


def open_batch(
    records: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, max_bytes: int | None = None
) -> bytes | None:
    """Check each record of a client's batch; the batch written anew if need be, else None.

    It is written anew for another codec, and where its header contradicts the records: offsets that are not
    consecutive, another largest timestamp. TooMuchToOpen: more than `max_bytes` when they are uncompressed, or more
    records than are looked at; otherwise it raises as `check_batch` does. Records are not kept in memory, only the
    batch made of them.
    """
    codec = target_codec(config, header.codec)
    if header.record_count > _MOST_RECORDS:
        raise TooMuchToOpen(f"The batch has {header.record_count} records, more than the {_MOST_RECORDS} looked at.")
    batch = records[: header.size_bytes]
    stays = header.codec == codec
    builder = None if stays else _builder(header, config, now_ms, codec)
    in_order, largest = True, -LONG_MAX - 1
    opened = skim_records if stays and codec != Codec.NONE else iter_batch_records
    found = checked_records(opened(batch, header, max_bytes or unpacked_limit(config)), config, now_ms, header)
    try:
        for expected, record in enumerate(found, header.base_offset):
            in_order = in_order and record.offset == expected
            largest = max(largest, record.timestamp)
            if builder is not None:
                builder.append(record.timestamp, record.key, record.value, record.headers)
    except TooLarge as error:
        raise TooMuchToOpen(f"{error}.") from None
    except (CorruptBatch, UnreadableLength) as error:
        raise UnreadableRecords(str(error)) from None
    except InvalidRecord as error:
        raise InvalidRecords(str(error)) from None
    is_right = config.log_append_time or largest == header.max_timestamp
    if stays and codec != Codec.NONE:
        # Kafka means to write a batch anew whose offsets are not consecutive, and fails with an unknown error.
        if not in_order:
            raise UnreadableRecords("Offsets of compressed records are not consecutive.")
        return None if is_right else _with_timestamp(batch, largest)
    if stays and in_order and is_right:
        return None
    if header.producer_id != NO_PRODUCER_ID and (
        header.producer_epoch == NO_PRODUCER_EPOCH or header.base_sequence < 0
    ):  # Kafka finds it while it writes the header
        raise UnreadableRecords("A batch with a producer id needs an epoch and a sequence.")
    if builder is None:
        builder = _builder(header, config, now_ms, codec)
        for record in iter_batch_records(batch, header):
            builder.append(record.timestamp, record.key, record.value, record.headers)
    anew = builder.build()
    if len(anew) > config.max_message_bytes:
        raise RecordTooLarge(len(anew), config.max_message_bytes)
    return anew


def _builder(header: BatchHeader, config: LogConfig, now_ms: int, codec: int) -> BatchBuilder:
    """What writes a client's batch anew."""
    return BatchBuilder(
        codec=codec,
        level=codec_level(config, codec),
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        log_append_time_ms=now_ms if config.log_append_time else None,
    )


def _with_timestamp(records: memoryview, largest: int) -> bytes:
    """The batch with the largest timestamp of its records, where its header has another."""
    batch = bytearray(records)
    patch_timestamp(batch, 0, len(batch), CREATE_TIME, largest)
    return bytes(batch)


def checked_records(
    found: Iterable[Record], config: LogConfig, now_ms: int, header: BatchHeader | None = None
) -> Iterator[Record]:
    """Gives all records of a batch on, and then says whether they may be appended, as far as keys and timestamps go.

    `header`: of a v2 batch. Raises InvalidTimestamp where that of a record is out of range, else InvalidRecords, with
    what is wrong with each, but for very many.
    """
    sets_time = header is not None and header.attributes & TIMESTAMP_TYPE_BIT != 0
    errors: list[RecordError] = []
    count, late = 0, False
    for index, record in enumerate(found):
        message = None
        if config.compacted and record.key is None:
            message = "Compacted topic cannot accept message without key"
        elif (message := timestamp_error(record, config, now_ms, sets_time)) is not None:
            late = True
        if message is not None:
            count += 1
            if count <= _TOLD_ERRORS:
                errors.append(RecordError(index, message))
        yield record
    if late:
        text = "One or more records have been rejected due to invalid timestamp"
        raise InvalidTimestamp(text, tuple(errors), count)
    if count:
        raise InvalidRecords(
            f"One or more records have been rejected due to {count} record errors in total, and only showing the "
            f"first three errors at most: {[error.message for error in errors[:3]]}",
            tuple(errors),
            count,
        )


def codec_level(config: LogConfig, codec: int) -> int | None:
    """The level to compress at, None for the codec's own default."""
    if codec == Codec.GZIP:
        return config.compression_gzip_level
    if codec == Codec.ZSTD:
        return config.compression_zstd_level
    if codec == Codec.LZ4 and config.compression_lz4_level != _LZ4_DEFAULT_LEVEL:
        return config.compression_lz4_level
    return None


def timestamp_error(record: Record, config: LogConfig, now_ms: int, sets_time: bool = False) -> str | None:
    """What is wrong with the timestamp of a record, None where nothing is. `sets_time`: it says LogAppendTime."""
    if config.log_append_time:
        if not sets_time:
            return None
        return (
            f"Invalid timestamp type in message with offset {record.offset}. "
            "Producer should not set timestamp type to LogAppendTime."
        )
    timestamp = record.timestamp
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    if timestamp == NO_TIMESTAMP or (timestamp - now_ms <= after and now_ms - timestamp <= before):
        return None
    return (
        f"Timestamp {timestamp} of message with offset {record.offset} is out of range. The timestamp should be within "
        f"[{max(now_ms - before, -LONG_MAX - 1)}, {now_ms + after}]"
    )
