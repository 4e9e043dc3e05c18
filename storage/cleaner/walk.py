"""What the cleaner does byte by byte and key by key, where no slice does it for many at a time.

Functions of bytes, numbers and lists. Where there was a C compiler when this was installed they have a compiled twin,
made of this source and of the types in `walk.pxd`; `twin.py` has whichever is to be used.

`raw` is `data`, and in the twin C's pointer to it: what is cut out of that is copied and nothing else, half the time
of the walk, but nothing looks at its borders. So the byte at its end, or what lies behind, was looked at in `data`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from protocol.records.batch import CODEC_MASK, CONTROL_BIT, HEADER_SIZE, LOG_OVERHEAD, NO_TIMESTAMP, TRANSACTIONAL_BIT
from protocol.records.crc32c import crc32c
from protocol.records.errors import InvalidRecord
from protocol.records.varint import decode_varint, decode_varlong, encode_varint

#: Attributes of batches with which a transaction or a codec has to do.
_NOT_PLAIN = CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT
#: A copy is cheaper than a view of what is smaller.
_SMALL = 2048
#: Of -64 to 63.
_ONE_BYTE_VARINTS = [encode_varint(value) for value in range(-64, 64)]


def _number(data: bytes, at: int, stop: int) -> int:
    """The unsigned number there, big-endian."""
    found = 0
    for place in range(at, stop):
        found = found << 8 | data[place]
    return found


# -- batches ---------------------------------------------------------------------------------------------------------


def walk_batches(data: bytes, verify: bool) -> tuple[list[int], Sequence[int] | None] | None:
    """Where whole batches of v2 begin, with the end of the last one; and their offsets, where each is one plain record.

    Those are a range where they have no gap. None where there is no batch, or one that is not of v2; with `verify` also
    where a checksum is wrong.
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
    """The keys of batches that are one plain record each, and the places of tombstones among them.

    None where one is not as it mostly is.
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
        # attributes, which say nothing; timestamp and offset are the batch's
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
    """Add the keys of records `first` to `stop` of a batch, which begin there. InvalidRecord, IndexError.

    `tombstones` gets places among all keys. `deltas`: the offset deltas up to `first`, None where they have no gap;
    `expected`: the next one then, folded. Where the records end, and these two for what follows.
    """
    raw = data
    before = len(keys) - first
    for number in range(first, stop):
        # Varints by hand where they have one or two bytes, which is nearly always.
        length = data[position]
        at = position + 3  # attributes, and the timestamp's first byte
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
    """Add to `starts` where so many records end, the first of which begins at its last one."""
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
    """The records `kept`, with timestamps from `base` on instead of `base_before`: None is the first one's.

    `append_time` is the timestamp of all of them, if they have one. The bytes, their base and their largest timestamp.
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
    """A varint still folded (zigzag), and where it ends."""
    value, position = decode_varint(data, position)
    return (value << 1) ^ (value >> 31), position


# -- a table of keys -------------------------------------------------------------------------------------------------
#
# Open addressing over one array of 64-bit numbers, two for each slot: one hash of a key, 0 where the slot is free; and
# of a second hash the upper 32 bits, above where the key is now. The first hash's lower 32 bits say at which slot it
# stands, or behind which: what part of 2**32 they are is what part of the slots.


def put_keys(keys: Sequence[bytes | None], offsets: Sequence[int], table: array[int], start: int) -> int:
    """Note where keys are now, as places from the offset `start` on; how many of them are new.

    None is no key, and what lies below `start` does not count. There must be free slots left.
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
    """A 1 for each key that is in the table, a 0 for each other, and for None."""
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
    """Put all that is in a table into one that is larger, and empty."""
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
    """Flip these bits of the marks at the places where keys are now."""
    low = 0xFFFFFFFF
    for entry in range(0, len(table), 2):
        if table[entry]:
            marks[table[entry + 1] & low] ^= bits
