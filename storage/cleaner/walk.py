"""The loops of the cleaner over single bytes and keys, where no slice processes many at a time.

The functions take bytes, numbers and lists. If a C compiler was available at installation, a compiled module exists,
made from this source and the types in `walk.pxd`. `compiled_walk.py` selects the module to use.

`raw` is the same object as `data`; in the compiled module it is a C pointer to it. A slice of a pointer is only copied,
which halves the time of a loop, but its bounds are not checked. So the code first reads the byte at the end of the
slice, or one after it, from `data`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from protocol.records.batch import CODEC_MASK, CONTROL_BIT, HEADER_SIZE, LOG_OVERHEAD, NO_TIMESTAMP, TRANSACTIONAL_BIT
from protocol.records.crc32c import crc32c
from protocol.records.errors import InvalidRecord
from protocol.records.varint import decode_varint, decode_varlong, encode_varint

#: The attributes of batches with a transaction or a codec.
_NOT_PLAIN = CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT
#: For batches smaller than this a copy is cheaper than a memoryview.
_SMALL = 2048
#: The varints of -64 to 63.
_ONE_BYTE_VARINTS = [encode_varint(value) for value in range(-64, 64)]


def _number(data: bytes, at: int, stop: int) -> int:
    """Return the unsigned big-endian number at [at, stop)."""
    found = 0
    for place in range(at, stop):
        found = found << 8 | data[place]
    return found


# -- batches ---------------------------------------------------------------------------------------------------------


def walk_batches(data: bytes, verify: bool) -> tuple[list[int], Sequence[int] | None] | None:
    """Return the boundaries of the whole batches v2, and their offsets if each is one plain record.

    The boundaries are the starts and the end of the last batch. The offsets are a range if they have no gap. Returns
    None if there is no batch or one is not v2; with `verify` also if a checksum is wrong.
    """
    borders = [0]
    are_single, first, following = True, 0, 0
    offsets: list[int] | None = None  # once there is a gap
    raw = data
    view = memoryview(data)
    available, header_size, overhead, not_plain, small = len(data), HEADER_SIZE, LOG_OVERHEAD, _NOT_PLAIN, _SMALL
    at = 0
    while at + header_size <= available:
        end = at + overhead + _number(data, at + 8, at + 12)
        if end > available:
            break
        if data[at + 16] != 2 or end < at + header_size:
            return None
        if verify:
            summed = raw[at + 21 : end] if end - at < small else view[at + 21 : end]
            if crc32c(summed) != _number(data, at + 17, at + 21):
                return None
        if are_single:
            last_offset_delta, records = _number(data, at + 23, at + 27), _number(data, at + 57, at + 61)
            are_single = not (last_offset_delta or records != 1 or data[at + 22] & not_plain)
            offset = _number(data, at, at + 8)
            if not at:
                first = following = offset
            if offset != following and offsets is None:
                offsets = list(range(first, following))
            if offsets is not None:
                offsets.append(offset)
            following = offset + 1
        at = end
        borders.append(at)
    if not at:
        return None
    return borders, (offsets or range(first, following)) if are_single else None


def walk_single(data: bytes, starts: list[int], ends: list[int]) -> tuple[list[bytes | None], list[int]] | None:
    """Return the keys of batches of one plain record each, and the indexes of the tombstones among them.

    Returns None if one of them is unusual.
    """
    keys: list[bytes | None] = []
    tombstones: list[int] = []
    raw = data
    header_size = HEADER_SIZE
    for number in range(len(starts)):
        at, end = starts[number] + header_size, ends[number]
        if end - at < 7:
            return None
        size = data[at]
        at += 1
        if size > 127:
            more = data[at]
            if not 0 < more < 128:
                return None
            size = size & 127 | more << 7
            at += 1
        if size & 1 or at + (size >> 1) != end:
            return None
        # the attributes are unused; timestamp and offset are those of the batch
        key_size = data[at + 3]
        if key_size & 0x81 or data[at + 1] or data[at + 2]:
            return None
        at += 4
        value_at = at + (key_size >> 1)
        if value_at >= end:
            return None
        if data[value_at] == 1:
            tombstones.append(number)
        keys.append(raw[at:value_at])
    return keys, tombstones


# -- the records of a batch ------------------------------------------------------------------------------------------


def walk_records(
    data: bytes,
    position: int,
    keys: list[bytes | None],
    tombstones: list[int],
    deltas: list[int] | None,
    first: int,
    stop: int,
    expected: int,
) -> tuple[int, list[int] | None, int]:
    """Append the keys of records `first` to `stop` of a batch to `keys`. Raises InvalidRecord and IndexError.

    `tombstones` gets indexes into `keys`. `deltas` are the offset deltas up to `first`, or None if they have no gap;
    `expected` is the next delta, zigzag-encoded. Returns where the records end, and `deltas` and `expected` for the
    next call.
    """
    raw = data
    before = len(keys) - first
    for number in range(first, stop):
        # Varints of one or two bytes are decoded inline, because nearly all are.
        length = data[position]
        at = position + 3  # attributes, and the first byte of the timestamp
        if length > 127:
            byte = data[position + 1]
            at += 1
            length = length & 127 | byte << 7
            if byte > 127:
                length, at = _long_varint(data, position)
                at += 2
        end = at - 2 + (length >> 1)
        while data[at - 1] > 127:
            at += 1
        delta = data[at]
        if delta > 127:
            byte = data[at + 1]
            at += 1
            delta = delta & 127 | byte << 7
            if byte > 127:
                delta, at = _long_varint(data, at - 1)
                at -= 1
        if delta != expected or deltas is not None:
            if delta & 1 or delta < expected:
                raise InvalidRecord(f"record {number} has an offset out of order")
            if deltas is None:
                deltas = list(range(number))
            deltas.append(delta >> 1)
            expected = delta
        expected += 2
        size = data[at + 1]
        at += 2
        if size > 127:
            size, at = _long_varint(data, at - 1)
        start = at
        if not size & 1:
            at += size >> 1
        if data[at] == 1:
            tombstones.append(before + number)
        if size & 1:
            keys.append(None)
        else:
            keys.append(raw[start:at])
        if at >= end:
            raise InvalidRecord(f"the key of record {number} reaches past the end of the record")
        position = end
    return position, deltas, expected


def walk_sizes(data: bytes, starts: list[int], count: int) -> None:
    """Append the ends of `count` records to `starts`; the first begins at its last element."""
    position = starts[-1]
    for _ in range(count):
        length = data[position]
        position += 1
        if length > 127:
            byte = data[position]
            position += 1
            length = length & 127 | byte << 7
            if byte > 127:
                length, position = _long_varint(data, position - 2)
        position += length >> 1
        starts.append(position)


def walk_kept(
    data: bytes, starts: list[int], kept: list[int], base_before: int, append_time: int | None, base: int | None
) -> tuple[bytes, int, int]:
    """Return the records `kept`, with timestamps relative to `base` instead of `base_before`.

    If `base` is None, the timestamp of the first record is the base. `append_time` is the timestamp of all records, if
    they have one. Returns the bytes, the base and the largest timestamp.
    """
    parts: list[bytes] = []
    raw = data
    available, largest = len(data), NO_TIMESTAMP
    one_byte = _ONE_BYTE_VARINTS
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
        if not position < after <= end <= available:
            raise InvalidRecord(f"record {number} does not end where the next one begins")
        timestamp = base_before + delta if append_time is None else append_time
        if timestamp > largest:
            largest = timestamp
        if base is None:
            base = timestamp
        changed = timestamp - base
        if changed == delta:
            parts.append(raw[start:end])
        elif -64 <= changed < 64 and after == position + 2:
            parts.append(raw[start : position + 1])
            parts.append(one_byte[changed + 64])
            parts.append(raw[after:end])
        else:
            varint = encode_varint(changed)
            parts.append(encode_varint(1 + len(varint) + end - after))
            parts.append(data[position : position + 1])
            parts.append(varint)
            parts.append(data[after:end])
    return b"".join(parts), NO_TIMESTAMP if base is None else base, largest


def _long_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a varint, still zigzag-encoded, and where it ends."""
    value, position = decode_varint(data, position)
    return (value << 1) ^ (value >> 31), position


# -- a table of keys -------------------------------------------------------------------------------------------------
#
# Open addressing over one array of 64-bit numbers, two per slot. The first is one hash of a key, 0 if the slot is free.
# The second has the upper 32 bits of another hash, and below them the last place of the key. The lower 32 bits of the
# first hash, as a fraction of 2**32, select the slot, or the slot before it.


def put_keys(keys: Sequence[bytes | None], offsets: Sequence[int], table: array[int], start: int) -> int:
    """Record the last places of keys, counted from the offset `start`. Return how many keys are new.

    None is not a key, and offsets below `start` are skipped. There must be free slots.
    """
    slots, stop, low, added = len(table) >> 1, len(table), 0xFFFFFFFF, 0
    in_a_row = isinstance(offsets, range)
    offset = offsets[0] - 1 if in_a_row else 0
    for number in range(len(keys)):
        if in_a_row:
            offset += 1
        else:
            offset = offsets[number]
        key = keys[number]
        if key is None or offset < start:
            continue
        fingerprint = hash(key) or 1
        check = hash(key + b"\0")
        check ^= check & low
        at = ((fingerprint & low) * slots >> 32) * 2
        while table[at] != fingerprint or (table[at + 1] ^ check) >> 32:
            if not table[at]:
                table[at] = fingerprint
                added += 1
                break
            at += 2
            if at == stop:
                at = 0
        table[at + 1] = check | (offset - start)
    return added


def known_keys(keys: Sequence[bytes | None], table: array[int]) -> bytearray:
    """Return a 1 for each key in the table, a 0 for each other and for None."""
    slots, stop, low = len(table) >> 1, len(table), 0xFFFFFFFF
    known = bytearray(len(keys))
    for number in range(len(keys)):
        key = keys[number]
        if key is None:
            continue
        fingerprint = hash(key) or 1
        check = hash(key + b"\0")
        at = ((fingerprint & low) * slots >> 32) * 2
        while table[at] and (table[at] != fingerprint or (table[at + 1] ^ check) >> 32):
            at += 2
            if at == stop:
                at = 0
        if table[at]:
            known[number] = 1
    return known


def move_keys(table: array[int], larger: array[int]) -> None:
    """Move all keys of a table to a larger empty one."""
    slots, stop, low = len(larger) >> 1, len(larger), 0xFFFFFFFF
    for entry in range(0, len(table), 2):
        fingerprint = table[entry]
        if fingerprint:
            at = ((fingerprint & low) * slots >> 32) * 2
            while larger[at]:
                at += 2
                if at == stop:
                    at = 0
            larger[at] = fingerprint
            larger[at + 1] = table[entry + 1]


def flip_marks(table: array[int], marks: bytearray, bits: int) -> None:
    """Flip `bits` in the marks at the last places of the keys."""
    low = 0xFFFFFFFF
    for entry in range(0, len(table), 2):
        if table[entry]:
            marks[table[entry + 1] & low] ^= bits
