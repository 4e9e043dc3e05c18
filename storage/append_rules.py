"""What records must be like to be appended, and what is done to them on the way.

Header-only where nothing asks for more: the fast way looks at 61 bytes and the checksum. `open_batch` works a record,
for compacted topics (keys must be there), for a compression.type other than the producer's, and with record
validation `full`. Every refusal is Apache Kafka's for the same bytes (tried on 4.3.1), but for lies inside the records
of a batch whose header is consistent, which only `full` sees: counts, offset deltas, timestamps.
Kept for now: magic 2 only; older formats are converted before they come here.
"""

from __future__ import annotations

from enum import Enum

from protocol.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    CREATE_TIME,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MIN_ENTRY_LENGTH,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    patch_timestamp,
)
from protocol.records.builder import BatchBuilder
from protocol.records.compression import Codec
from protocol.records.crc32c import crc32c
from protocol.records.errors import CorruptBatch, InvalidRecord, UnreadableLength
from protocol.records.record import Record, iter_batch_records, skim_records
from storage.errors import (
    AppendRefused,
    CorruptRecords,
    InvalidRecords,
    InvalidTimestamp,
    RecordError,
    RecordTooLarge,
    UnknownCodec,
    UnreadableRecords,
)
from storage.log_config import LONG_MAX, LogConfig

Buffer = bytes | bytearray | memoryview

#: The smallest record has a byte each for length, attributes, two deltas, two lengths and the header count.
_SMALLEST_RECORD = 7
#: To say which record of a refused compressed batch was at fault, no more than this is unpacked.
_EXPLAIN_BYTES = 16 << 20
_MAGIC = 2
_UNPACK_HEADER = HEADER.unpack_from
_NEW_TUPLE = tuple.__new__
_CODECS = {"uncompressed": Codec.NONE, **{codec.name.lower(): codec for codec in Codec if codec}}


class AppendOrigin(Enum):
    """Who wrote the records: it decides what is checked.

    CLIENT: everything. COORDINATOR: a part of this broker, which may write control records and has no sequences.
    REPLICATION: from the leader's log, with their offsets and epochs; only bytes are checked.
    """

    CLIENT = 0
    COORDINATOR = 1
    REPLICATION = 2


_CLIENT = AppendOrigin.CLIENT


def check_batch(records: memoryview, config: LogConfig, origin: AppendOrigin, now_ms: int) -> BatchHeader:
    """The header of the one batch in `records`, once it may be appended by its header.

    Trailing bytes that are no whole entry are ignored, as Kafka does; `header.size_bytes` tells what counts.
    Raises CorruptRecords, InvalidRecords, RecordTooLarge, InvalidTimestamp, UnknownCodec.
    """
    available = len(records)
    if available < HEADER_SIZE:
        raise _misshapen(records)
    header = _NEW_TUPLE(BatchHeader, _UNPACK_HEADER(records))
    base_offset, length, _, magic, crc, attributes, delta, first_time, last_time, producer_id, _, sequence, count = (
        header
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
        raise _inconsistent(header)
    if config.log_append_time:
        if attributes & TIMESTAMP_TYPE_BIT and origin is _CLIENT:
            raise InvalidTimestamp("Producer should not set timestamp type to LogAppendTime.")
    elif (
        (
            last_time - now_ms > config.message_timestamp_after_max_ms
            or now_ms - last_time > config.message_timestamp_before_max_ms
            or now_ms - first_time > config.message_timestamp_before_max_ms
        )
        and last_time != NO_TIMESTAMP
        and not must_open(header, config, origin)
    ):
        raise _refused_by_time(records, header, config, now_ms)
    return header


def _has_second(records: memoryview, position: int) -> bool:
    """Whether something follows that is, or pretends to be, another whole entry, or cannot be the front of one."""
    left = len(records) - position
    if left < LOG_OVERHEAD:
        return False
    length = int.from_bytes(records[position + 8 : position + LOG_OVERHEAD], "big", signed=True)
    if length < MIN_ENTRY_LENGTH:
        return True
    return left > MAGIC_OFFSET and (length + LOG_OVERHEAD <= left or records[position + MAGIC_OFFSET] > _MAGIC)


def _misshapen(records: memoryview) -> AppendRefused:
    """Why `records` are not one batch v2 and nothing else."""
    position = found = 0
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
        if found:
            return InvalidRecords(
                "Produce requests are only allowed to contain exactly one record batch per partition."
            )
        if magic != _MAGIC:
            return InvalidRecords("Produce requests are only allowed to contain record batches with magic version 2.")
        if length + LOG_OVERHEAD < HEADER_SIZE:
            return CorruptRecords(f"Record batch of {length + LOG_OVERHEAD} bytes is smaller than its header.")
        found += 1
        position += length + LOG_OVERHEAD
    return InvalidRecords("Produce requests must have at least one record batch per partition.")


def _inconsistent(header: BatchHeader) -> InvalidRecords:
    """The first thing in the header that breaks a rule, in Kafka's order."""
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


def _refused_by_time(records: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> InvalidTimestamp:
    try:
        found = tuple(iter_batch_records(records[: header.size_bytes], header, _EXPLAIN_BYTES))
    except (CorruptBatch, InvalidRecord):
        found = ()
    errors = tuple(
        RecordError(index, message)
        for index, record in enumerate(found)
        if (message := _timestamp_error(record, config, now_ms)) is not None
    )
    return InvalidTimestamp("One or more records have been rejected due to invalid timestamp", errors)


def _timestamp_error(record: Record, config: LogConfig, now_ms: int) -> str | None:
    timestamp = record.timestamp
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    if timestamp == NO_TIMESTAMP or (timestamp - now_ms <= after and now_ms - timestamp <= before):
        return None
    return (
        f"Timestamp {timestamp} of message with offset {record.offset} is out of range. The timestamp should be within "
        f"[{max(now_ms - before, -LONG_MAX - 1)}, {now_ms + after}]"
    )


# -- a record at a time ------------------------------------------------------------------------------------------


def target_codec(config: LogConfig, source: int) -> int:
    """The codec that a batch shall have in the log (KIP-390 keeps a batch of the right codec, whatever its level)."""
    return source if config.compression_type == "producer" else _CODECS[config.compression_type]


def must_open(header: BatchHeader, config: LogConfig, origin: AppendOrigin) -> bool:
    """Whether the records themselves have to be looked at, or written anew."""
    if origin is not _CLIENT:
        return False
    return (
        config.record_validation == "full"
        or config.compacted
        or (config.compression_type != "producer" and header.codec != target_codec(config, header.codec))
    )


def open_batch(records: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> bytes | None:
    """Check each record of a client's batch; the batch written anew where that has to be, else None.

    It has to be for another codec, and where the header belies the records: offsets that are not consecutive, another
    largest timestamp. Pure, and slow with big batches: may be called from a worker. Raises as `check_batch` does.
    """
    codec = target_codec(config, header.codec)
    stays_compressed = header.codec == codec != Codec.NONE
    try:
        opened = skim_records if stays_compressed else iter_batch_records
        found = list(opened(records[: header.size_bytes], header))
    except (CorruptBatch, UnreadableLength) as error:
        raise UnreadableRecords(str(error)) from None
    except InvalidRecord as error:
        raise InvalidRecords(str(error)) from None
    _check_records(found, config, now_ms)
    if stays_compressed:
        return _right_compressed(records[: header.size_bytes], header, config, found)
    if codec == header.codec:
        in_order = all(record.offset == header.base_offset + index for index, record in enumerate(found))
        if in_order and (config.log_append_time or max(found, key=_timestamp).timestamp == header.max_timestamp):
            return None
    builder = BatchBuilder(
        codec=codec,
        level=_level(config, codec),
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        transactional=header.is_transactional,
        log_append_time_ms=now_ms if config.log_append_time else None,
    )
    for record in found:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    batch = builder.build()
    if len(batch) > config.max_message_bytes:
        raise RecordTooLarge(len(batch), config.max_message_bytes)
    return batch


def _right_compressed(records: memoryview, header: BatchHeader, config: LogConfig, found: list[Record]) -> bytes | None:
    """The batch with the largest timestamp of its records, where its header has another; else None.

    Kafka means to write a batch anew whose offsets are not consecutive, and fails with an unknown error.
    """
    if any(record.offset != header.base_offset + index for index, record in enumerate(found)):
        raise UnreadableRecords("Offsets of compressed records are not consecutive.")
    largest = max(found, key=_timestamp).timestamp
    if config.log_append_time or largest == header.max_timestamp:
        return None
    batch = bytearray(records)
    patch_timestamp(batch, 0, len(batch), CREATE_TIME, largest)
    return bytes(batch)


def _timestamp(record: Record) -> int:
    return record.timestamp


def _check_records(found: list[Record], config: LogConfig, now_ms: int) -> None:
    errors, late = [], False
    for index, record in enumerate(found):
        if config.compacted and record.key is None:
            errors.append(RecordError(index, "Compacted topic cannot accept message without key"))
        elif not config.log_append_time and (message := _timestamp_error(record, config, now_ms)) is not None:
            errors.append(RecordError(index, message))
            late = True
    if late:
        raise InvalidTimestamp("One or more records have been rejected due to invalid timestamp", tuple(errors))
    if errors:
        raise InvalidRecords(
            f"One or more records have been rejected due to {len(errors)} record errors in total, and only showing the "
            f"first three errors at most: {[error.message for error in errors[:3]]}",
            tuple(errors),
        )


def _level(config: LogConfig, codec: int) -> int | None:
    if codec == Codec.GZIP:
        return config.compression_gzip_level
    if codec == Codec.ZSTD:
        return config.compression_zstd_level
    return None  # cramjam's lz4 has one fast level; snappy and none have no levels
