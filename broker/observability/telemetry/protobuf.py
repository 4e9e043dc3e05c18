"""Read messages in the wire format of Protocol Buffers, field by field.

A message is a sequence of fields, each a tag and a value. A tag is the field's number and its wire type, in three bits:
varint (0), 8 bytes (1), a length and as many bytes (2), 4 bytes (5). Groups (3, 4) have been obsolete for many years,
and are malformed here. Nothing is copied or kept, so unauthenticated input only costs the time to read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_FIXED_SIZES = {FIXED64: 8, FIXED32: 4}
#: The maximum length of a varint: 64 bits, 7 in each byte.
_MOST_VARINT_BYTES = 10
_LOWEST_64_BITS = (1 << 64) - 1

_double_of = Struct("<d").unpack
_int64_of = Struct("<q").unpack


class Malformed(Exception):
    """Bytes that are not a valid message."""


def tag(number: int, wire_type: int) -> int:
    """Return the tag that precedes a field's value."""
    return number << 3 | wire_type


def fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield tags and values in order: an unsigned number for a varint, bytes for all others. Raises Malformed.

    A caller that compares tags skips fields of another type, as readers of Protocol Buffers do.
    """
    position, end = 0, len(message)
    while position < end:
        found, position = _varint(message, position)
        wire_type = found & 7
        if found >> 3 == 0:
            raise Malformed("a field has the number 0")
        if wire_type == VARINT:
            number, position = _varint(message, position)
            yield found, number
            continue
        if wire_type == LENGTH:
            size, position = _varint(message, position)
        elif wire_type in _FIXED_SIZES:
            size = _FIXED_SIZES[wire_type]
        else:
            raise Malformed(f"wire type {wire_type}")
        start, position = position, position + size
        if position > end:
            raise Malformed("a field reaches beyond its message")
        yield found, message[start:position]


def messages(message: memoryview, number: int) -> Iterator[memoryview]:
    """Yield the values of a field that is a message, or bytes. Raises Malformed."""
    wanted = tag(number, LENGTH)
    for found, value in fields(message):
        if found == wanted:
            assert isinstance(value, memoryview)
            yield value


def number_of(message: memoryview, number: int) -> int:
    """Return the last value of a varint field, 0 if there is none. Raises Malformed."""
    wanted, last = tag(number, VARINT), 0
    for found, value in fields(message):
        if found == wanted:
            assert isinstance(value, int)
            last = value
    return last


def text(value: memoryview) -> str:
    """Decode a string. Raises Malformed."""
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"a string is not UTF-8: {error.reason}") from None


def double(value: memoryview) -> float:
    """Decode 8 bytes as a double."""
    return float(_double_of(value)[0])


def int64(value: memoryview) -> int:
    """Decode 8 bytes as a signed number."""
    return int(_int64_of(value)[0])


def signed(value: int) -> int:
    """Convert a varint to the int64 that it encodes."""
    return value - (1 << 64) if value >> 63 else value


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    """Return a number and the position after it."""
    found = shift = 0
    for byte in message[position : position + _MOST_VARINT_BYTES]:
        found |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return found & _LOWEST_64_BITS, position
        shift += 7
    raise Malformed("a number does not end")
