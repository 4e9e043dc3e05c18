"""Inspect the records of a batch before it is appended, and rewrite the batch if necessary.

This is needed for compacted topics (each record needs a key), for a compression.type other than the producer's, and
with record validation `full`. It is pure, works record by record and is slow: a small batch is opened during the
append, a larger one in a worker process, whose result reaches the append as `Opened`.
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
from protocol.records.record import Record, check_record_sizes, iter_batch_records, skim_records
from storage.errors import (
    InvalidRecords,
    InvalidTimestamp,
    RecordError,
    RecordTooLarge,
    TooMuchToOpen,
    UnreadableRecords,
)
from storage.log_config import LONG_MAX, LogConfig

#: A batch with more records or bytes is opened in a worker: inline it would block the event loop for longer than a
#: worker takes to respond, about 0.3 ms.
_INLINE_RECORDS, _INLINE_BYTES = 64, 16 << 10
#: The size of compressed records is unknown until they are decompressed. Larger ones go to a worker too.
_INLINE_UNPACKED_BYTES = 64 << 10
#: The maximum number of records that are inspected; they take a worker some seconds.
_MOST_RECORDS = 1 << 20
#: The maximum ratio of decompressed records to max.message.bytes, which counts as at least _LEAST_BYTES.
_SHRINKS, _LEAST_BYTES = 64, 64 << 10
#: The most invalid records that the error names; the others are only counted.
_MAX_REPORTED_ERRORS = 1000

_CODECS = {"uncompressed": Codec.NONE, **{codec.name.lower(): codec for codec in Codec if codec}}
#: This level of lz4 means its fast mode, as before levels existed (KIP-390).
_LZ4_DEFAULT_LEVEL = 9


class BatchToOpen(Exception):
    """The append needs the result of `open_in_worker` for its batch. Nothing has changed."""


class Opened(msgspec.Struct, frozen=True):
    """The result of a worker for a batch under a configuration: a rewritten batch, no change, or an error."""

    config: LogConfig
    batch: bytes | None = None
    error: Exception | None = None


def is_for_worker(header: BatchHeader, config: LogConfig) -> bool:
    """Return whether opening a batch would block the event loop for too long, judged by its header."""
    if header.record_count > _INLINE_RECORDS:
        return True
    packs = header.codec != Codec.NONE or target_codec(config, header.codec) != Codec.NONE
    return packs and header.size_bytes > _INLINE_BYTES


def open_inline(
    records: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, opened: Opened | None
) -> bytes | None:
    """Call `open_batch` for a small batch, or return the result in `opened`. Raises BatchToOpen too."""
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
    """Call `open_batch` in a worker process."""
    return open_batch(memoryview(records), parse_header(records), config, now_ms)


def target_codec(config: LogConfig, source: int) -> int:
    """Return the codec of a batch in the log. A batch with the right codec is kept, whatever its level (KIP-390)."""
    return source if config.compression_type == "producer" else _CODECS[config.compression_type]


def unpacked_limit(config: LogConfig) -> int:
    """Return the maximum size of decompressed records. No honest client's batch shrinks further."""
    return min(max(config.max_message_bytes, _LEAST_BYTES) * _SHRINKS, DEFAULT_MAX_SIZE)


def open_batch(
    records: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, max_bytes: int | None = None
) -> bytes | None:
    """Validate each record of a client's batch. Return the rewritten batch if necessary, else None.

    It is rewritten for another codec, and if its header contradicts the records: gaps between offsets, another largest
    timestamp. Raises TooMuchToOpen for more than `max_bytes` decompressed bytes or too many records, otherwise the
    errors of `check_batch`. Records are not kept in memory, only the resulting batch.
    """
    codec = target_codec(config, header.codec)
    if header.record_count > _MOST_RECORDS:
        raise TooMuchToOpen(f"The batch has {header.record_count} records, more than the limit of {_MOST_RECORDS}.")
    batch = records[: header.size_bytes]
    stays = header.codec == codec
    builder = None if stays else _builder(header, config, now_ms, codec)
    in_order, largest = True, -LONG_MAX - 1
    most_bytes, most_record_bytes = max_bytes or unpacked_limit(config), config.max_decompressed_message_bytes
    if stays and codec != Codec.NONE:
        opened = skim_records(batch, header, most_bytes, most_record_bytes)
    else:
        opened = iter_batch_records(batch, header, most_bytes)
    found = checked_records(opened, config, now_ms, header)
    try:
        if config.limits_records and header.codec != Codec.NONE and not stays:
            check_record_sizes(batch, header, most_record_bytes, most_bytes)
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
        # Kafka tries to rewrite a batch with gaps between its offsets and fails with an unknown error.
        if not in_order:
            raise UnreadableRecords("Offsets of compressed records are not consecutive.")
        return None if is_right else _with_timestamp(batch, largest)
    if stays and in_order and is_right:
        return None
    if header.producer_id != NO_PRODUCER_ID and (
        header.producer_epoch == NO_PRODUCER_EPOCH or header.base_sequence < 0
    ):  # Kafka detects it when it writes the header
        raise UnreadableRecords("A batch with a producer id needs an epoch and a sequence.")
    if builder is None:
        builder = _builder(header, config, now_ms, codec)
        for record in iter_batch_records(batch, header):
            builder.append(record.timestamp, record.key, record.value, record.headers)
    rewritten = builder.build()
    if len(rewritten) > config.max_message_bytes:
        raise RecordTooLarge(len(rewritten), config.max_message_bytes)
    return rewritten


def _builder(header: BatchHeader, config: LogConfig, now_ms: int, codec: int) -> BatchBuilder:
    """Return a builder for a rewritten batch of a client."""
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
    """Return the batch with the largest timestamp of its records in its header."""
    batch = bytearray(records)
    patch_timestamp(batch, 0, len(batch), CREATE_TIME, largest)
    return bytes(batch)


def checked_records(
    found: Iterable[Record], config: LogConfig, now_ms: int, header: BatchHeader | None = None
) -> Iterator[Record]:
    """Yield all records of a batch, then raise an error if keys or timestamps are invalid.

    `header` is that of a v2 batch. Raises InvalidTimestamp if a timestamp is out of range, else InvalidRecords; the
    error names the invalid records, up to a limit.
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
            if count <= _MAX_REPORTED_ERRORS:
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
    """Return the compression level, or None for the default of the codec."""
    if codec == Codec.GZIP:
        return config.compression_gzip_level
    if codec == Codec.ZSTD:
        return config.compression_zstd_level
    if codec == Codec.LZ4 and config.compression_lz4_level != _LZ4_DEFAULT_LEVEL:
        return config.compression_lz4_level
    return None


def timestamp_error(record: Record, config: LogConfig, now_ms: int, sets_time: bool = False) -> str | None:
    """Return the error in the timestamp of a record, or None. `sets_time`: the batch has the type LogAppendTime."""
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
