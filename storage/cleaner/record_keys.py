"""Read the keys of a batch's records from their bytes, without creating record objects.

The compiled walk reads all records one by one. Without it, batches of one layout, which most producers write, are read
as a whole: byte N of all records is one strided slice, so one comparison checks all of them. `record_rows.py` splits
records that differ only in size. All others are read one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from protocol.records.batch import HEADER_SIZE, BatchHeader
from protocol.records.compression import Codec, decompress
from protocol.records.errors import InvalidRecord
from protocol.records.record import check_sizes
from storage.cleaner.compiled_walk import IS_COMPILED, walk_records
from storage.cleaner.heads import regular
from storage.cleaner.record_rows import read_rows
from storage.log_config import LARGEST_RECORD_BYTES

#: The fewest records for which a search for uniform ones pays.
_FEW_RECORDS = 8
#: The varint bytes that another byte follows.
_CONTINUATION_BYTES = bytes(range(128, 256))
#: The offset deltas of consecutive records: one byte for the first 64, two bytes up to 8191.
_ONE_BYTE_DELTAS = bytes(range(0, 128, 2))
_LOW_DELTAS = bytes(delta << 1 & 127 | 128 for delta in range(1 << 13))
_HIGH_DELTAS = bytes(delta >> 6 for delta in range(1 << 13))


class BatchKeys(NamedTuple):
    """The key (None if missing) and offset of each record in order, and the indexes of records without a value."""

    keys: list[bytes | None]
    offsets: list[int]
    tombstones: list[int]


def uncompressed(batch: memoryview, header: BatchHeader, most_record_bytes: int = LARGEST_RECORD_BYTES) -> bytes:
    """Return the uncompressed records of a batch v2.

    Raises CorruptBatch and UnsupportedCodec; OversizedRecord if a compressed record has more than `most_record_bytes`.
    """
    records = batch[HEADER_SIZE : header.size_bytes]
    codec = header.codec
    if codec == Codec.NONE:
        return bytes(records)
    data = decompress(codec, records)
    if most_record_bytes < LARGEST_RECORD_BYTES:
        check_sizes(data, header, most_record_bytes)
    return data


def read_keys(data: bytes, header: BatchHeader) -> BatchKeys:
    """Return the keys of a batch's records. Raises InvalidRecord if the bytes contradict the header."""
    found = BatchKeys([], [], [])
    add_keys(found, data, 0, len(data), header)
    return found


def add_keys(found: BatchKeys, data: bytes, position: int, stop: int, header: BatchHeader) -> None:
    """Append the keys of a batch's records to `found`. The records are at [position, stop) of `data`, uncompressed.

    Raises InvalidRecord if the bytes are not records, or not as many as the header declares.
    """
    base_offset, last_offset_delta, count = header[0], header[6], header[12]
    deltas: list[int] | None = None
    number, expected = 0, 0
    try:
        while number < count:
            if not IS_COMPILED and deltas is None and count - number >= _FEW_RECORDS:
                uniform, size = _add_uniform(found, data, position, stop, number, count)
                if uniform:
                    number += uniform
                    position += uniform * size
                    expected = number << 1
                    continue
                uniform, end = _add_rows(found, data, position, number, count)
                if uniform:
                    number += uniform
                    position = end
                    expected = number << 1
                    continue
            # look for uniform records less and less often
            end = count if IS_COMPILED else min(count, 2 * number + _FEW_RECORDS)
            position, deltas, expected = walk_records(
                data, position, found.keys, found.tombstones, deltas, number, end, expected
            )
            number = end
    except IndexError:
        position = -1
    if position != stop or (count and expected >> 1 > last_offset_delta + 1):
        raise InvalidRecord(f"the batch at offset {base_offset} does not have the {count} records that it declares")
    if deltas is None:
        found.offsets.extend(range(base_offset, base_offset + count))
    else:
        found.offsets.extend([base_offset + delta for delta in deltas])


def _add_uniform(found: BatchKeys, data: bytes, position: int, stop: int, number: int, count: int) -> tuple[int, int]:
    """Append the keys of records with one layout. Return their number and the size of each, or (0, 0).

    Byte N of all records is one strided slice, so one comparison checks all of them.
    """
    at = position + (1 if data[position] < 128 else 2)
    length = data[position] & 127 | data[at - 1] << 7 if at == position + 2 else data[position]
    size = at - position + (length >> 1)
    if length >= 1 << 14 or number >= 1 << 13 or data[position] != data[position + size]:
        return 0, 0
    uniform = min(count - number, (stop - position) // size, (1 << 6 if number < 1 << 6 else 1 << 13) - number)
    lengths = data[position : position + uniform * size : size]
    uniform -= len(lengths.lstrip(lengths[:1]))
    if uniform < _FEW_RECORDS:
        return 0, 0
    last = position + uniform * size
    if at == position + 2 and data[position + 1 : last : size] != data[position + 1 : position + 2] * uniform:
        return 0, 0
    end = position + size
    at += 1
    while at < end and data[at] > 127:
        if data[at:last:size].translate(None, _CONTINUATION_BYTES):
            return 0, 0
        at += 1
    if at + 4 > end or not data[at:last:size].isascii():
        return 0, 0
    at += 1
    if number < 1 << 6:
        in_order = data[at:last:size] == _ONE_BYTE_DELTAS[number : number + uniform]
    else:
        in_order = data[at:last:size] == _LOW_DELTAS[number : number + uniform]
        at += 1
        in_order = in_order and data[at:last:size] == _HIGH_DELTAS[number : number + uniform]
    at += 1
    key_size = data[at]
    value_at = at + 1 + (key_size >> 1)
    same_key_size = data[at:last:size] == data[at : at + 1] * uniform
    if not in_order or not same_key_size or key_size & 0x81 or value_at >= end:
        return 0, 0
    add_tombstones(found, data[value_at:last:size])
    found.keys.extend(regular(key_size >> 1, size, uniform).unpack_from(data, at + 1))
    return uniform, size


def _add_rows(found: BatchKeys, data: bytes, position: int, number: int, count: int) -> tuple[int, int]:
    """Append the keys of records that differ only in size. Return their number and the end position, or (0, 0)."""
    if number < 1 << 6:
        deltas: tuple[bytes, ...] = (_ONE_BYTE_DELTAS[number:count],)
    else:
        deltas = (_LOW_DELTAS[number:count], _HIGH_DELTAS[number:count])
    rows = read_rows(data, position, deltas)
    if rows is None or len(rows.keys) < _FEW_RECORDS:
        return 0, 0
    add_tombstones(found, rows.value_sizes)
    found.keys.extend(rows.keys)
    return len(rows.keys), position + sum(rows.sizes)


def add_tombstones(found: BatchKeys, value_sizes: Sequence[int]) -> None:
    """Append the index of each of the next records whose value size is -1, as a varint the byte 1."""
    if 1 in value_sizes:
        first = len(found.keys)
        found.tombstones.extend([first + number for number, size in enumerate(value_sizes) if size == 1])
