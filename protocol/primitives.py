"""The primitive types of fields, and the variable-length encodings that the generated code calls.

All numbers are big-endian. A string or byte string follows its length. The old encoding has an int16 (string) or int32
(bytes), with -1 for null. The compact encoding of flexible versions (KIP-482) has an unsigned varint of length + 1,
with 0 for null.
"""

from __future__ import annotations

from protocol.error_codes import ProtocolError

ZERO_UUID = bytes(16)
"""The null uuid. uuids are `bytes` of length 16."""

MAX_UNKNOWN_TAGGED_FIELDS = 1_000
"""The limit per struct. No Kafka message has more than a few known tagged fields, and skipping each takes time."""


class Primitive:
    """A type without parts.

    `code` are its letters in `struct` formats, empty if its length varies. `size` is its minimum size in bytes.
    """

    __slots__ = ("code", "name", "size", "zero")

    def __init__(self, name: str, code: str, size: int, zero: object) -> None:
        self.name = name
        self.code = code
        self.size = size
        self.zero = zero

    def __repr__(self) -> str:
        return self.name


boolean = Primitive("bool", "?", 1, False)
int8 = Primitive("int8", "b", 1, 0)
int16 = Primitive("int16", "h", 2, 0)
uint16 = Primitive("uint16", "H", 2, 0)
int32 = Primitive("int32", "i", 4, 0)
uint32 = Primitive("uint32", "I", 4, 0)
int64 = Primitive("int64", "q", 8, 0)
float64 = Primitive("float64", "d", 8, 0.0)
uuid = Primitive("uuid", "16s", 16, ZERO_UUID)
string = Primitive("string", "", 2, "")
bytestring = Primitive("bytes", "", 4, b"")
"""Decoded to independent `bytes`, which may be kept."""
records = Primitive("records", "", 4, None)
"""Record batches. Decoded to a memoryview of the frame, encoded as a chunk of its own: never copied."""


def unsigned_varint(value: int) -> bytes:
    """Return the varint of a number >= 0: seven bits per byte, lowest first."""
    if value < 0x80:
        return SMALL_VARINTS[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


SMALL_VARINTS = tuple(bytes((value,)) for value in range(0x80))
"""The varints of one byte, by value."""


def read_unsigned_varint(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits. Returns (value, end). Raises ProtocolError."""
    try:
        first = buffer[position]
        return (first, position + 1) if first < 0x80 else varint_rest(buffer, position + 1, first)
    except IndexError:
        raise ProtocolError("truncated varint") from None


def varint_rest(buffer: bytes | bytearray | memoryview, position: int, first: int) -> tuple[int, int]:
    """Read the bytes of an unsigned varint after its first byte, which has its top bit set.

    Returns (value, end). Raises ProtocolError beyond five bytes, and IndexError if the bytes end too early.
    """
    value = first & 0x7F
    for shift in (7, 14, 21):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    byte = buffer[position]
    if byte > 0x7F:
        raise ProtocolError("varint of more than five bytes")
    return value | (byte & 0x0F) << 28, position + 1  # bits beyond the 32nd are dropped, as in Java


def length_rest(buffer: bytes | bytearray | memoryview, position: int, first: int) -> tuple[int, int]:
    """Like `varint_rest`, for a count or a length + 1. The result may be negative.

    Kafka reads these as int32, so values beyond that range are negative: a null, or an invalid number of tagged fields.
    """
    value, position = varint_rest(buffer, position, first)
    return (value - 0x1_0000_0000 if value > 0x8000_0000 else value), position


def skip_tagged_fields(buffer: bytes | bytearray | memoryview, position: int, count: int, end: int) -> tuple[int, int]:
    """Skip the tagged fields of a struct that has no known ones; `count` is the first byte of their number.

    Returns (end, number of fields). Raises ProtocolError for a negative number, and for more than
    MAX_UNKNOWN_TAGGED_FIELDS.
    """
    if count > 0x7F:
        count, position = length_rest(buffer, position, count)
    if not 0 <= count <= MAX_UNKNOWN_TAGGED_FIELDS:
        raise ProtocolError(f"{count} unknown tagged fields")
    for _ in range(count):
        _tag, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        position += size
        if position > end:
            raise ProtocolError("a tagged field reaches beyond the end")
    return position, count
