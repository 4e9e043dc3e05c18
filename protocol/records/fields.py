"""Find keys, values and headers of records for columnar readers, without an object for each field of each record.

The functions take bytes and numbers. If a C compiler was available at installation, a compiled module exists, made from
this source and the types in `fields.pxd`. `compiled_fields.py` selects the module to use.
"""

from __future__ import annotations

from array import array

from protocol.records.record import decode_record
from protocol.records.varint import decode_varint, decode_varlong

#: The bits of a record's mark: no key, no value, at least one header.
NO_KEY, NO_VALUE, HAS_HEADERS = 1, 2, 4
#: Numbers per record: start and end of the key, start and end of the value, end of the headers.
BORDERS = 5
#: The size of a record without key, value and headers.
_LEAST = 7
#: The usual maximum number of bits of lengths and of timestamp deltas.
_LENGTH_BITS, _TIME_BITS = 28, 42


def walk_fields(
    data: bytes,
    position: int,
    stop: int,
    count: int,
    start: int,
    behind: int,
    base_offset: int,
    base_timestamp: int,
    is_append_time: bool,
    offsets: array[int],
    timestamps: array[int],
    borders: array[int],
    marks: bytearray,
    taken: int,
    shift: int,
    with_fields: bool,
) -> tuple[int, int, int, int]:
    """Read the records from `position` of `data` and append them after the first `taken` entries of the output arrays.

    The loop reads at most `count` records, as many as the arrays have room for, and none that begins at `stop` or
    later. For a record with an offset in [start, behind) it stores the offset and the timestamp in us. `with_fields`,
    it also stores the record's borders, each plus `shift`, and its mark. `base_timestamp` is in ms; with
    `is_append_time` it is the timestamp of all records.

    Returns the number of records read, the number of entries now, the position of the next record, and all marks
    combined. The loop ends before an unusual record, which needs `decode_fields`. Raises IndexError or OverflowError if
    a record is damaged.
    """
    available, room, least, length_bits, time_bits = len(data), len(offsets), _LEAST, _LENGTH_BITS, _TIME_BITS
    looked = seen = 0
    while looked < count and taken < room and position < stop and position + least <= available:
        number = data[position]
        at = position + 1
        if number > 127:
            number, at = _longer(data, at, number, length_bits)
        end = at + (number >> 1)
        at += 1  # attributes, which are unused
        if number & 1 or at == 1 or end > available:
            break
        number = data[at]
        at += 1
        if number > 127:
            number, at = _longer(data, at, number, time_bits)
        timestamp = base_timestamp
        if not is_append_time:
            timestamp += (number >> 1) ^ -(number & 1)
        delta = data[at]
        if delta > 127:
            delta, at = _longer(data, at + 1, delta, length_bits)
        else:
            at += 1
        if delta & 1 or at < position + 4:
            break
        offset = base_offset + (delta >> 1)
        key_at = key_end = value_at = value_end = mark = 0
        if with_fields:
            number = data[at]
            key_at = at + 1
            if number > 127:
                number, key_at = _longer(data, key_at, number, length_bits)
            if number == 1:
                mark = 1
                number = 0
            key_end = key_at + (number >> 1)
            if number & 1 or not key_at or key_end >= end:
                break
            number = data[key_end]
            value_at = key_end + 1
            if number > 127:
                number, value_at = _longer(data, value_at, number, length_bits)
            if number == 1:
                mark |= 2
                number = 0
            value_end = value_at + (number >> 1)
            if number & 1 or not value_at or value_end >= end:
                break
            if data[value_end]:
                mark |= 4
            elif value_end + 1 != end:
                break
        position = end
        looked += 1
        if offset < start or offset >= behind:
            continue
        offsets[taken] = offset
        timestamps[taken] = timestamp * 1000
        if with_fields:
            number = taken * 5
            borders[number] = shift + key_at
            borders[number + 1] = shift + key_end
            borders[number + 2] = shift + value_at
            borders[number + 3] = shift + value_end
            borders[number + 4] = shift + end
            marks[taken] = mark
            seen |= mark
        taken += 1
    return looked, taken, position, seen


def _longer(data: bytes, at: int, low: int, most_bits: int) -> tuple[int, int]:
    """Return a zigzag-encoded varint whose first byte is `low`, and its end; (0, 0) if it exceeds `most_bits`."""
    number, bits = low & 127, 7
    while bits < most_bits:
        byte = data[at]
        at += 1
        number |= (byte & 127) << bits
        if byte < 128:
            return number, at
        bits += 7
    return 0, 0


def decode_fields(data: bytes, position: int) -> tuple[int, int, int, list[int], int]:
    """Decode any record. Return its offset delta, timestamp delta, end, borders and mark. Raises InvalidRecord."""
    timestamp_delta, offset_delta, key, value, headers, end = decode_record(data, position)
    _, at = decode_varint(data, position)
    _, at = decode_varlong(data, at + 1)
    _, at = decode_varint(data, at)
    _, key_at = decode_varint(data, at)
    key_end = key_at + len(key or b"")
    _, value_at = decode_varint(data, key_end)
    value_end = value_at + len(value or b"")
    mark = (NO_KEY if key is None else 0) | (NO_VALUE if value is None else 0) | (HAS_HEADERS if headers else 0)
    return offset_delta, timestamp_delta, end, [key_at, key_end, value_at, value_end, end], mark
