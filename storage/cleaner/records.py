"""A batch anew, with some of its records left out.

Records stay bytes: nothing is made of headers and values. A batch with records left out keeps its base offset, last
offset, sequence and all that its header says; its base timestamp is that of the first record left, or the delete
horizon (KIP-534), as Apache Kafka writes it. Messages v0 and v1 stay what they are, wrapped ones are wrapped anew.
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
from protocol.records.varint import decode_varlong, encode_varint
from storage.cleaner.keys import STAYS
from storage.cleaner.record_keys import long_varint
from storage.cleaner.record_rows import record_sizes

#: Of 0 to 63, and of -64 to -1 behind them, where negative indexes find them.
_ONE_BYTE_VARINTS = [bytes([folded]) for folded in (*range(0, 128, 2), *range(127, 0, -2))]


def rewrite(data: bytes, header: BatchHeader, marks: Sequence[int], horizon: int | None) -> bytes:
    """The batch with those of its records (`data`, uncompressed) whose mark is not DROP: at least one.

    `horizon` is its delete horizon from now on, None for none.
    """
    records, count, base_timestamp, max_timestamp = _kept_records(data, header, marks, horizon)
    codec = header.codec
    if header.attributes & TIMESTAMP_TYPE_BIT:
        max_timestamp = header.max_timestamp
    body = records if codec == Codec.NONE else compress(codec, records)
    attributes = header.attributes & ~DELETE_HORIZON_BIT | (0 if horizon is None else DELETE_HORIZON_BIT)
    return _with_records(header, body, attributes, base_timestamp, max_timestamp, count)


def emptied(header: BatchHeader) -> bytes:
    """The batch without records: what is left of a producer's last batch, and of the last one of a round."""
    attributes = header.attributes & ~(DELETE_HORIZON_BIT | CODEC_MASK)
    return _with_records(header, b"", attributes, NO_TIMESTAMP, header.max_timestamp, 0)


def _with_records(
    header: BatchHeader, records: bytes, attributes: int, base_timestamp: int, max_timestamp: int, count: int
) -> bytes:
    """The batch with these records (compressed, if its codec is one) and what of the header they change."""
    anew = header._replace(
        attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=count
    )
    return encode_batch(anew, records)


def _kept_records(
    data: bytes, header: BatchHeader, marks: Sequence[int], horizon: int | None
) -> tuple[bytes, int, int, int]:
    """Bytes and number of the records kept, their base timestamp and the largest one."""
    parts: list[bytes] = []
    base_before = header.base_timestamp
    append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else None
    base = horizon
    largest = NO_TIMESTAMP
    starts = _starts(data, len(marks))
    kept = list(itertools.compress(range(len(marks)), bytes(marks).translate(STAYS)))
    for number in kept:
        start, end = starts[number], starts[number + 1]
        position = start + 1
        while data[position - 1] > 127:
            position += 1
        delta = data[position + 1]
        after = position + 2
        if delta > 127:
            delta, after = decode_varlong(data, position + 1)
        else:
            delta = (delta >> 1) ^ -(delta & 1)
        timestamp = base_before + delta if append_time is None else append_time
        if timestamp > largest:
            largest = timestamp
        if base is None:
            base = timestamp
        changed = timestamp - base
        if changed == delta:
            parts.append(data[start:end])
        elif -64 <= changed < 64 and after == position + 2:
            parts.append(data[start : position + 1])
            parts.append(_ONE_BYTE_VARINTS[changed])
            parts.append(data[after:end])
        else:
            varint = encode_varint(changed)
            parts.append(encode_varint(1 + len(varint) + end - after))
            parts.append(data[position : position + 1])
            parts.append(varint)
            parts.append(data[after:end])
    return b"".join(parts), len(kept), NO_TIMESTAMP if base is None else base, largest


def _starts(data: bytes, count: int) -> list[int]:
    """Where the records begin, and the last one's end."""
    starts = [0]
    one_byte_deltas = min(count, 64)
    for more in (one_byte_deltas, count - one_byte_deltas):
        position = starts[-1]
        size = record_sizes()[data[position] | data[position + 1] << 8] if more else 0
        end = position + more * size
        if size and all(data[at:end:size] == data[at : at + 1] * more for at in (position, position + 1)):
            starts.extend(range(position + size, end + 1, size))
        else:
            _add_starts(starts, data, more)
    return starts


def _add_starts(starts: list[int], data: bytes, count: int) -> None:
    """The same of so many records of any sizes, one by one."""
    position, add = starts[-1], starts.append
    for _ in range(count):
        length = data[position]
        if length < 128:
            position += 1 + (length >> 1)
        else:
            byte = data[position + 1]
            if byte < 128:
                position += 2 + (length >> 1 & 63 | byte << 6)
            else:
                length, position = long_varint(data, position)
                position += length >> 1
        add(position)


def legacy_records(entry: memoryview) -> list[Record]:
    """The record, or the wrapped ones, of a message v0 or v1. CorruptBatch, InvalidRecord, UnsupportedCodec."""
    return list(iter_entry_records(entry))


def rewrite_legacy(entry: memoryview, records: Sequence[Record]) -> bytes:
    """A wrapper anew around some of its records, at least one."""
    wrapper = parse_message(entry)
    append_time = wrapper.timestamp if wrapper.is_log_append_time else None
    builder = MessageSetBuilder(wrapper.magic, records[0].offset, wrapper.codec, log_append_time_ms=append_time)
    for record in records:
        builder.append(record.timestamp, record.key, record.value, offset=record.offset)
    return builder.build()
