"""The first bytes of a window's batches, side by side: a slice has the same byte of all of them."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

from protocol.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    TRANSACTIONAL_BIT,
)

#: Attributes with which neither a transaction nor a codec has to do; their high byte is unused.
_PLAIN = bytes(each for each in range(256) if not each & (CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT))
_ATTRIBUTES_AT = CRC_START + 1
#: Where fields lie: of last offset delta and number of records all bytes.
_OFFSET_AT, _LENGTH_AT, _CRC_AT, _LAST_DELTA_AND_COUNT = 0, 8, 17, (23, 24, 25, 26, 57, 58, 59, 60)
#: So many bytes may have a key of one record, and its size in one byte.
_UP_TO = 256
#: Formats that are kept: batches of one log have few.
_FORMATS = 64


class Heads:
    """The first `size` bytes of each of `count` batches of v2, whole headers at least."""

    __slots__ = ("count", "data", "size")

    def __init__(self, data: bytes, starts: Sequence[int]) -> None:
        """Of the batches that begin at `starts`. `size` reaches as far as the key of the first one's first record."""
        self.count = len(starts)
        for self.size in (_up_to_value(data[starts[0] : starts[0] + _UP_TO]), HEADER_SIZE):
            size = self.size
            self.data = b"".join([data[start : start + size] for start in starts])
            if len(self.data) == size * self.count:
                break

    def column(self, at: int) -> bytes:
        """The byte there of each."""
        return self.data[at :: self.size]

    def are(self, at: int, byte: int) -> bool:
        """Whether it is this one of all of them."""
        return self.column(at).count(byte) == self.count

    def numbers(self, at: int, code: str, byteorder: str = "big") -> array[int]:
        """The numbers that lie there, of an array's type code."""
        numbers = array(code)
        size = numbers.itemsize
        packed = bytearray(self.count * size)
        for place in range(size):
            packed[place::size] = self.column(at + place)
        numbers.frombytes(packed)
        if sys.byteorder != byteorder:
            numbers.byteswap()
        return numbers

    def parts(self, at: int, size: int) -> tuple[bytes, ...]:
        """So many bytes from there on of each."""
        found: tuple[bytes, ...] = regular(size, self.size, self.count).unpack_from(self.data, at)
        return found

    # -- fields of headers -------------------------------------------------------------------------------------------

    def are_of_v2(self) -> bool:
        """Whether each may be a batch of v2."""
        return self.are(MAGIC_OFFSET, 2) and min(self.lengths()) >= HEADER_SIZE - LOG_OVERHEAD

    def are_single(self) -> bool:
        """Whether each is one record, not compressed and of no transaction."""
        *zeros, count = _LAST_DELTA_AND_COUNT
        plain = not self.column(_ATTRIBUTES_AT).translate(None, _PLAIN)
        return plain and self.are(count, 1) and all(self.are(at, 0) for at in zeros)

    def lengths(self) -> array[int]:
        return self.numbers(_LENGTH_AT, "I")

    def checksums(self) -> array[int]:
        return self.numbers(_CRC_AT, "I")

    def offsets(self) -> array[int]:
        return self.numbers(_OFFSET_AT, "Q")


@lru_cache(_FORMATS)
def regular(part: int, size: int, count: int) -> Struct:
    """The first `part` bytes of each `size` bytes, so many times."""
    return Struct(f"{part}s" + f"{size - part}x{part}s" * (count - 1))


def _up_to_value(batch: bytes) -> int:
    """How many bytes there are up to where a value of a batch's first record begins; those of a header for too many."""
    if len(batch) < HEADER_SIZE + 8:
        return HEADER_SIZE
    at = HEADER_SIZE + (4 if batch[HEADER_SIZE] < 128 else 5)
    return at + 2 + (batch[at] >> 1) if batch[at] < 128 else HEADER_SIZE
