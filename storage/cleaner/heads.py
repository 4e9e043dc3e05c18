"""The first bytes of a window's batches in one buffer, so that a slice has the same byte of all batches."""

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

#: Attributes without a transaction and without a codec. The high byte is unused.
_PLAIN = bytes(each for each in range(256) if not each & (CODEC_MASK | TRANSACTIONAL_BIT | CONTROL_BIT))
_ATTRIBUTES_AT = CRC_START + 1
#: The positions of fields; for last offset delta and record count the positions of all bytes.
_OFFSET_AT, _LENGTH_AT, _CRC_AT, _LAST_DELTA_AND_COUNT = 0, 8, 17, (23, 24, 25, 26, 57, 58, 59, 60)
#: The key of a single record, with its size in one byte, ends within this many bytes.
_UP_TO = 256
#: Cached formats: the batches of one log need few.
_FORMATS = 64


class Heads:
    """The first `size` bytes of `count` batches v2; at least their headers."""

    __slots__ = ("count", "data", "size")

    def __init__(self, data: bytes, starts: Sequence[int]) -> None:
        """Collect the first bytes of the batches at `starts`. `size` extends to the key of the first one's first
        record.
        """
        self.count = len(starts)
        for self.size in (_up_to_value(data[starts[0] : starts[0] + _UP_TO]), HEADER_SIZE):
            size = self.size
            self.data = b"".join([data[start : start + size] for start in starts])
            if len(self.data) == size * self.count:
                break

    def column(self, at: int) -> bytes:
        """Return the byte at `at` of each batch."""
        return self.data[at :: self.size]

    def are(self, at: int, byte: int) -> bool:
        """Return whether the byte at `at` is `byte` in all batches."""
        return self.column(at).count(byte) == self.count

    def numbers(self, at: int, code: str, byteorder: str = "big") -> array[int]:
        """Return the numbers at `at` of all batches; `code` is their type code for an array."""
        numbers = array(code)
        size = numbers.itemsize
        packed = bytearray(self.count * size)
        for index in range(size):
            packed[index::size] = self.column(at + index)
        numbers.frombytes(packed)
        if sys.byteorder != byteorder:
            numbers.byteswap()
        return numbers

    def parts(self, at: int, size: int) -> tuple[bytes, ...]:
        """Return `size` bytes from `at` of each batch."""
        found: tuple[bytes, ...] = regular(size, self.size, self.count).unpack_from(self.data, at)
        return found

    # -- fields of headers -------------------------------------------------------------------------------------------

    def are_of_v2(self) -> bool:
        """Return whether each may be a batch v2."""
        return self.are(MAGIC_OFFSET, 2) and min(self.lengths()) >= HEADER_SIZE - LOG_OVERHEAD

    def are_single(self) -> bool:
        """Return whether each batch is one uncompressed record without a transaction."""
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
    """Return a format for the first `part` bytes of each of `count` items of `size` bytes."""
    return Struct(f"{part}s" + f"{size - part}x{part}s" * (count - 1))


def _up_to_value(batch: bytes) -> int:
    """Return the number of bytes up to the value of a batch's first record; the header size if they are too many."""
    if len(batch) < HEADER_SIZE + 8:
        return HEADER_SIZE
    at = HEADER_SIZE + (4 if batch[HEADER_SIZE] < 128 else 5)
    return at + 2 + (batch[at] >> 1) if batch[at] < 128 else HEADER_SIZE
