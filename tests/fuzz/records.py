"""Batches of records of all formats and codecs, as a producer sends them and as readers of the log decode them."""

from __future__ import annotations

from contextlib import suppress

from protocol.records.batch import (
    CRC_START,
    HEADER_SIZE,
    MAGIC_OFFSET,
    compute_crc,
    entry_at,
    iter_batches,
    parse_header,
)
from protocol.records.compression import DEFAULT_MAX_SIZE, Codec
from protocol.records.control import control_type, coordinator_epoch
from protocol.records.down_conversion import convert_down
from protocol.records.entries import iter_records
from protocol.records.errors import CorruptBatch, RecordsError
from protocol.records.record import keys_and_values
from storage.append.header_validation import AppendOrigin, check_batch
from storage.append.message_sets import batch_of_messages, has_whole_message
from storage.append.record_validation import (
    BatchToOpen,
    Opened,
    open_batch,
    target_codec,
)
from storage.errors import AppendRefused
from storage.log_config import LogConfig

#: A batch never decompresses to more bytes, whatever it claims.
MAX_SIZE = 1 << 20
_NOW_MS = 1_700_000_000_000
_CONFIGS = (
    LogConfig(),
    LogConfig(compression_type="zstd", max_message_bytes=64 << 10),
    LogConfig(compression_type="uncompressed", max_message_bytes=64 << 10),
    LogConfig(message_timestamp_type="LogAppendTime", compression_type="lz4", max_message_bytes=64 << 10),
)


def with_right_checksums(data: bytes) -> bytes:
    """Return `data` with right checksums: most fuzzed batches would otherwise fail only because of them."""
    buffer, position = bytearray(data), 0
    with suppress(CorruptBatch):
        while (found := entry_at(buffer, position)) is not None:
            _, size, magic = found
            if magic == 2 and size >= HEADER_SIZE:
                crc = compute_crc(buffer, position, size)
                buffer[position + MAGIC_OFFSET + 1 : position + CRC_START] = crc.to_bytes(4, "big")
            position += size
    return bytes(buffer)


def read_all(records: bytes, max_size: int = DEFAULT_MAX_SIZE) -> None:
    """Read all records without keeping them: a few bytes may be many records, and each reader has a limit."""
    for _ in iter_records(records, max_size):
        pass


def record_batches(data: bytes) -> None:
    """Validate the records of a Produce request for one partition; the first byte selects the topic configuration."""
    if not data:
        return
    config, records = _CONFIGS[data[0] & 3], with_right_checksums(data[1:])
    view = memoryview(records)
    with suppress(AppendRefused):
        try:
            header = check_batch(view, config, AppendOrigin.CLIENT, _NOW_MS)
        except BatchToOpen:  # a worker would find the invalid records
            header = check_batch(view, config, AppendOrigin.CLIENT, _NOW_MS, _opened(view, config))
        rewritten = open_batch(view, header, config, _NOW_MS, MAX_SIZE)
        if rewritten is not None and (header.codec == Codec.NONE or target_codec(config, header.codec) != header.codec):
            # a rewritten batch is readable; of a batch that stays compressed only the header was checked
            read_all(rewritten)
    _read(records)


def _opened(view: memoryview, config: LogConfig) -> Opened:
    try:
        return Opened(config, open_batch(view, parse_header(view), config, _NOW_MS, MAX_SIZE))
    except AppendRefused as error:
        return Opened(config, error=error)


def message_sets(data: bytes) -> None:
    """Validate message sets of a client that is older than record batches."""
    if not data:
        return
    config, records = _CONFIGS[data[0] & 3], memoryview(data)[1:]
    with suppress(AppendRefused, RecordsError):
        if has_whole_message(records):
            read_all(batch_of_messages(records, config, _NOW_MS))
    _read(bytes(records))


def _read(records: bytes) -> None:
    """Read the bytes as down-conversion, tools and readers of internal topics do."""
    with suppress(RecordsError):
        for record in iter_records(records, MAX_SIZE):
            with suppress(RecordsError):
                control_type(record)
                coordinator_epoch(record)
    for magic in (0, 1):
        with suppress(RecordsError):
            convert_down(records, magic, 0, MAX_SIZE)
    with suppress(RecordsError):
        for position, header in iter_batches(records):
            if not header.codec:  # compressed batches have no limit there, because the broker wrote them
                keys_and_values(records, position, header)
    with suppress(RecordsError):
        parse_header(records)
