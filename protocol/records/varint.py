"""Zigzag varints, which the records of a v2 batch use for lengths, deltas and counts.

Zigzag maps a signed value to an unsigned one (0, -1, 1, -2 -> 0, 1, 2, 3). It is written seven bits per byte, lowest
first. An int32 takes 1 to 5 bytes, an int64 1 to 10.
"""

from protocol.records.buffer import Buffer
from protocol.records.errors import InvalidRecord

MAX_VARINT_SIZE = 5
"""Bytes of an int32 at most."""

_INT64_MASK = (1 << 64) - 1
_ONE_BYTE = tuple(bytes([folded]) for folded in range(128))


def zigzag(value: int) -> int:
    """Map a signed value to an unsigned one that is small if its magnitude is small."""
    return (value << 1) ^ (value >> 63)


def encode_varint(value: int) -> bytes:
    """Encode `value` (int32 or int64, which have the same encoding) as a zigzag varint."""
    rest = (value << 1) ^ (value >> 63)
    if rest < 128:
        return _ONE_BYTE[rest]
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def decode_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return (value, end position) of the int32 at `position`.

    Raises InvalidRecord if it is longer than 5 bytes or truncated.
    """
    return _decode(buffer, position, 35)


def decode_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return (value, end position) of the int64 at `position`.

    Raises InvalidRecord if it is longer than 10 bytes or truncated.
    """
    return _decode(buffer, position, 70)


def _decode(buffer: Buffer, position: int, bits: int) -> tuple[int, int]:
    try:
        byte = buffer[position]
        if byte < 128:
            return (byte >> 1) ^ -(byte & 1), position + 1
        folded = byte & 127
        shift = 7
        while shift < bits:
            position += 1
            byte = buffer[position]
            folded |= (byte & 127) << shift
            if byte < 128:
                # Bits beyond the type are dropped, as by Java's shifts.
                folded &= 0xFFFFFFFF if bits == 35 else _INT64_MASK
                return (folded >> 1) ^ -(folded & 1), position + 1
            shift += 7
    except IndexError:
        raise InvalidRecord("a varint is cut off by the end of the records") from None
    raise InvalidRecord(f"a varint has more than {bits // 7} bytes")
