"""Validate a batch by its header before it is appended.

Validation reads 61 bytes and the checksum, unless the topic needs more (see record_validation.py). Every rejection
equals Apache Kafka's for the same bytes (compared with 4.3.1). The exception is a batch with a consistent header and
inconsistent records (counts, offset deltas, timestamps), which only record validation `full` detects. Only magic 2 is
validated here; older formats are converted before.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from protocol.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MIN_ENTRY_LENGTH,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
)
from protocol.records.compression import Codec
from protocol.records.crc32c import crc32c
from storage.append.record_validation import Opened, open_inline, target_codec
from storage.errors import (
    AppendRefused,
    CorruptRecords,
    InvalidRecords,
    InvalidTimestamp,
    RecordTooLarge,
    UnknownCodec,
)
from storage.log_config import LogConfig

#: The smallest record has one byte each for length, attributes, two deltas, two lengths and the header count.
_SMALLEST_RECORD = 7
_MAGIC = 2
_UNPACK_HEADER = HEADER.unpack_from

#: The fields of a BatchHeader as a plain tuple: appends read each of them once, by unpacking.
HeaderFields: TypeAlias = "tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]"


class AppendOrigin(Enum):
    """The origin of records, which determines what is validated.

    CLIENT: everything. COORDINATOR: a coordinator of this broker, which may write control records and has no sequences.
    REPLICATION: another log, with its offsets and epochs; only checksums and sizes are validated.
    """

    CLIENT = 0
    COORDINATOR = 1
    REPLICATION = 2


_CLIENT = AppendOrigin.CLIENT


def check_batch(
    records: memoryview, config: LogConfig, origin: AppendOrigin, now_ms: int, opened: Opened | None = None
) -> BatchHeader:
    """Validate a batch as `check_header` does and return its header."""
    return BatchHeader._make(check_header(records, config, origin, now_ms, opened))


def check_header(
    records: memoryview, config: LogConfig, origin: AppendOrigin, now_ms: int, opened: Opened | None = None
) -> HeaderFields:
    """Validate the one batch in `records` by its header and return the fields of the header.

    Trailing bytes without a whole entry are ignored, as in Kafka; `batch_length` says the size of the batch. Raises
    CorruptRecords, InvalidRecords, RecordTooLarge, InvalidTimestamp and UnknownCodec. Raises BatchToOpen if many
    records must be inspected to name the invalid ones; `opened` is the result of that inspection.
    """
    available = len(records)
    if available < HEADER_SIZE:
        raise _misshapen(records)
    fields: HeaderFields = _UNPACK_HEADER(records)
    base_offset, length, _, magic, crc, attributes, delta, first_time, last_time, producer_id, _, sequence, count = (
        fields
    )
    size = length + LOG_OVERHEAD
    whole = size == available or (HEADER_SIZE <= size < available and not _has_second(records, size))
    if magic != _MAGIC or not whole:
        raise _misshapen(records)
    if origin is _CLIENT and base_offset:
        raise InvalidRecords(f"The base offset of the record batch should be 0, but it is {base_offset}.")
    if size > config.max_message_bytes:
        raise RecordTooLarge(size, config.max_message_bytes)
    if crc32c(records[CRC_START:size]) != crc:
        raise CorruptRecords(f"Record is corrupt (stored crc = {crc}).")
    codec = attributes & CODEC_MASK
    if codec > 4:
        raise UnknownCodec(f"Unknown compression type id: {codec}")
    if origin is _CLIENT and (
        delta < 0
        or count != delta + 1
        or attributes & CONTROL_BIT
        or (producer_id >= 0 and sequence < 0)
        or (not codec and count * _SMALLEST_RECORD > size - HEADER_SIZE)
    ):
        raise _inconsistent(BatchHeader._make(fields))
    if config.log_append_time:
        if attributes & TIMESTAMP_TYPE_BIT and origin is _CLIENT:
            _refuse_by_time(records, fields, config, origin, now_ms, opened)
    elif (
        last_time - now_ms > config.message_timestamp_after_max_ms
        or now_ms - last_time > config.message_timestamp_before_max_ms
        or now_ms - first_time > config.message_timestamp_before_max_ms
    ) and last_time != NO_TIMESTAMP:
        _refuse_by_time(records, fields, config, origin, now_ms, opened)
    return fields


def _has_second(records: memoryview, position: int) -> bool:
    """Return whether the next bytes are or claim to be another whole entry, or cannot be the start of one."""
    left = len(records) - position
    if left < LOG_OVERHEAD:
        return False
    length = int.from_bytes(records[position + 8 : position + LOG_OVERHEAD], "big", signed=True)
    if length < MIN_ENTRY_LENGTH:
        return True
    return left > MAGIC_OFFSET and (length + LOG_OVERHEAD <= left or records[position + MAGIC_OFFSET] > _MAGIC)


def error_of_heads(records: memoryview) -> AppendRefused | None:
    """Return the error that Kafka finds in the batch headers alone, before other checks; None for one v2 batch."""
    position = 0
    while len(records) - position >= LOG_OVERHEAD:
        length = int.from_bytes(records[position + 8 : position + LOG_OVERHEAD], "big", signed=True)
        if length < MIN_ENTRY_LENGTH:
            return CorruptRecords(f"Found record size {length} smaller than minimum record overhead (14).")
        if len(records) - position < MAGIC_OFFSET + 1:
            break
        magic = records[position + MAGIC_OFFSET]
        if magic > _MAGIC:
            return CorruptRecords(f"Invalid magic found in record: {magic}")
        if length + LOG_OVERHEAD > len(records) - position:
            break
        if position:
            return InvalidRecords(
                "Produce requests are only allowed to contain exactly one record batch per partition."
            )
        if magic != _MAGIC:
            return InvalidRecords("Produce requests are only allowed to contain record batches with magic version 2.")
        position = length + LOG_OVERHEAD
    if not position:
        return InvalidRecords("Produce requests must have at least one record batch per partition.")
    return None


def _misshapen(records: memoryview) -> AppendRefused:
    """Return the error for `records` that are not exactly one v2 batch."""
    size = int.from_bytes(records[8:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
    return error_of_heads(records) or CorruptRecords(f"Record batch of {size} bytes is smaller than its header.")


def _inconsistent(header: BatchHeader) -> InvalidRecords:
    """Return the error for the first inconsistent header field, in Kafka's order."""
    count, delta = header.record_count, header.last_offset_delta
    if delta < 0:
        return InvalidRecords(f"Batch has an invalid offset range: [0, {delta}].")
    if count <= 0:
        return InvalidRecords(f"Invalid reported count for record batch: {count}.")
    if count != delta + 1:
        return InvalidRecords(f"Inconsistent batch offset range [0, {delta}] and count of records {count}.")
    if header.is_control:
        return InvalidRecords("Clients are not allowed to write control records.")
    if header.base_sequence < 0 <= header.producer_id:
        return InvalidRecords(
            f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id}."
        )
    return InvalidRecords(f"{header.size_bytes - HEADER_SIZE} bytes cannot hold {count} records.")


def _refuse_by_time(
    records: memoryview,
    fields: HeaderFields,
    config: LogConfig,
    origin: AppendOrigin,
    now_ms: int,
    opened: Opened | None,
) -> None:
    """Reject a batch with invalid timestamps in its header, unless its records must be opened in any case.

    The error names the records if they are readable.
    """
    header = BatchHeader._make(fields)
    if must_open(header, config, origin):
        return
    try:
        open_inline(records, header, config, now_ms, opened)
    except InvalidTimestamp:
        raise
    except AppendRefused:
        pass  # the records are inconsistent, and the header's timestamps suffice
    raise InvalidTimestamp("One or more records have been rejected due to invalid timestamp")


def must_open(header: BatchHeader, config: LogConfig, origin: AppendOrigin) -> bool:
    """Return whether the records must be inspected or rewritten."""
    if origin is not _CLIENT:
        return False
    return (
        config.record_validation == "full"
        or config.compacted
        or (config.limits_records and header.codec != Codec.NONE)
        or (config.compression_type != "producer" and header.codec != target_codec(config, header.codec))
    )
