"""The types that fields are made of, and the two variable-length encodings that the generated code calls.

All numbers are big-endian. Strings and byte strings carry their length in front: int16 (string) or int32 (bytes) in the
old encoding, an unsigned varint of length + 1 in the compact one of flexible versions (KIP-482). null is length -1,
or 0 compact.
"""

from __future__ import annotations

from protocol.errors import ProtocolError

ZERO_UUID = bytes(16)
"""The uuid that stands for "none"; uuids are plain `bytes` of length 16."""

MAX_UNKNOWN_TAGGED_FIELDS = 1_000
"""In a struct: no message of Kafka has more than a handful of known ones, and each costs time to pass over."""


class Primitive:
    """A type without parts. `code`: its letters in `struct` formats, empty if the length varies; `size`: the least."""

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
"""Decoded to `bytes` of its own: may be kept."""
records = Primitive("records", "", 4, None)
"""Record batches. Decoded to a memoryview of the frame, encoded as a chunk of its own: never copied."""


def unsigned_varint(value: int) -> bytes:
    """The varint of a number >= 0: seven bits a byte, lowest first."""
    if value < 0x80:
        return SMALL_VARINTS[value]
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
    """Read on after the first byte of an unsigned varint, which has its top bit set.

    Returns (value, end). Raises ProtocolError beyond five bytes and IndexError where the bytes end.
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
    return value | (byte & 0x0F) << 28, position + 1  # bits beyond the 32nd fall off, as in Java


def length_rest(buffer: bytes | bytearray | memoryview, position: int, first: int) -> tuple[int, int]:
    """As `varint_rest`, for the varint of a count or of a length + 1, which may come out negative.

    Kafka takes these for int32, and what is beyond their range for less than nothing: a null, or no tagged fields.
    """
    value, position = varint_rest(buffer, position, first)
    return (value - 0x1_0000_0000 if value > 0x8000_0000 else value), position


def skip_tagged_fields(buffer: bytes | bytearray | memoryview, position: int, count: int, end: int) -> tuple[int, int]:
    """Pass over the tagged fields of a struct that has none which anybody knows; `count`: the first byte of how many.

    Returns (position after them, how many). Raises ProtocolError where there are more than MAX_UNKNOWN_TAGGED_FIELDS.
    """
    if count > 0x7F:
        count, position = length_rest(buffer, position, count)
    if count > MAX_UNKNOWN_TAGGED_FIELDS:
        raise ProtocolError(f"{count} tagged fields that nobody knows")
    for _ in range(count):
        _tag, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        position += size
        if position > end:
            raise ProtocolError("a tagged field reaches beyond the end")
    return position, max(count, 0)
