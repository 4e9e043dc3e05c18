"""Rewrite a batch without some of its records.

Records stay bytes; headers and values are not decoded. A rewritten batch keeps its base offset, last offset, sequence
and all other header fields. Its base timestamp becomes that of the first kept record, or the delete horizon (KIP-534),
as in Apache Kafka. Messages v0 and v1 keep their format, and wrapped ones get a new wrapper.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from protocol.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    encode_batch,
)
from protocol.records.compression import Codec, compress
from protocol.records.legacy import iter_entry_records, parse_message
from protocol.records.legacy_builder import MessageSetBuilder
from protocol.records.record import Record
from storage.cleaner.compiled_walk import walk_kept, walk_sizes
from storage.cleaner.keys import STAYS
from storage.cleaner.record_rows import record_sizes


def rewrite(data: bytes, header: BatchHeader, marks: Sequence[int], horizon: int | None) -> bytes:
    """Return the batch with the records of `data` (uncompressed) whose mark is not DROP; at least one.

    `horizon` is its new delete horizon in ms, or None.
    """
    records, count, base_timestamp, max_timestamp = _kept_records(data, header, marks, horizon)
    codec = header.codec
    if header.attributes & TIMESTAMP_TYPE_BIT:
        max_timestamp = header.max_timestamp
    body = records if codec == Codec.NONE else compress(codec, records)
    attributes = header.attributes & ~DELETE_HORIZON_BIT | (0 if horizon is None else DELETE_HORIZON_BIT)
    return _with_records(header, body, attributes, base_timestamp, max_timestamp, count)


def emptied(header: BatchHeader) -> bytes:
    """Return the batch without records, for a producer's last batch and for the last batch of a round."""
    attributes = header.attributes & ~(DELETE_HORIZON_BIT | CODEC_MASK)
    return _with_records(header, b"", attributes, NO_TIMESTAMP, header.max_timestamp, 0)


def _with_records(
    header: BatchHeader, records: bytes, attributes: int, base_timestamp: int, max_timestamp: int, count: int
) -> bytes:
    """Return the batch with these records (compressed if it has a codec) and the header fields that they change."""
    rewritten = header._replace(
        attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=count
    )
    return encode_batch(rewritten, records)


def _kept_records(
    data: bytes, header: BatchHeader, marks: Sequence[int], horizon: int | None
) -> tuple[bytes, int, int, int]:
    """Return the bytes and number of the kept records, their base timestamp and their largest timestamp."""
    starts = _starts(data, len(marks))
    kept = list(itertools.compress(range(len(marks)), bytes(marks).translate(STAYS)))
    append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else None
    records, base, largest = walk_kept(data, starts, kept, header.base_timestamp, append_time, horizon)
    return records, len(kept), base, largest


def _starts(data: bytes, count: int) -> list[int]:
    """Return the starts of the records and the end of the last one."""
    starts = [0]
    one_byte_deltas = min(count, 64)
    for more in (one_byte_deltas, count - one_byte_deltas):
        position = starts[-1]
        size = record_sizes()[data[position] | data[position + 1] << 8] if more else 0
        end = position + more * size
        if size and all(data[at:end:size] == data[at : at + 1] * more for at in (position, position + 1)):
            starts.extend(range(position + size, end + 1, size))
        else:
            walk_sizes(data, starts, more)
    return starts


def legacy_records(entry: memoryview) -> list[Record]:
    """Return the record or the wrapped records of a message v0 or v1.

    Raises CorruptBatch, InvalidRecord and UnsupportedCodec.
    """
    return list(iter_entry_records(entry))


def rewrite_legacy(entry: memoryview, records: Sequence[Record]) -> bytes:
    """Return a new wrapper around some of its records, at least one."""
    wrapper = parse_message(entry)
    append_time = wrapper.timestamp if wrapper.is_log_append_time else None
    builder = MessageSetBuilder(wrapper.magic, records[0].offset, wrapper.codec, log_append_time_ms=append_time)
    for record in records:
        builder.append(record.timestamp, record.key, record.value, offset=record.offset)
    return builder.build()
