"""Split records that differ only in size with one `struct` format, which is derived from the first record.

The format is valid if the varints of all records have the same sizes, and their keys too. That is checked afterwards
for all records together, because the same byte of each is a slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import NamedTuple

#: For each byte, whether the varint continues after it.
_GOES_ON = bytes(128) + bytes([1]) * 128

#: The first two bytes (little-endian), the other bytes before the key, the key, and the first byte of the value's size.
_Row = tuple[int, bytes, bytes, int]


class Rows(NamedTuple):
    """Consecutive records: their keys, the first bytes of their value sizes, and their sizes."""

    keys: Sequence[bytes]
    value_sizes: Sequence[int]
    sizes: Sequence[int]


class _Layout(NamedTuple):
    """The positions of a record's bytes after its first two: timestamp delta, offset delta, size of the key, key."""

    timestamp_at: int
    delta_at: int
    size_at: int
    key_at: int
    key_size: int


@cache
def record_sizes() -> list[int]:
    """Return the sizes of records by their first two bytes (little-endian); 0 from 8 KiB on and for invalid ones.

    Sizes that are encoded in more bytes than necessary are invalid here: they do not determine where the rest is.
    """
    sizes = [0] * (1 << 16)
    for first in range(0, 256, 2):
        for second in range(256) if first < 128 else range(1, 128):
            sizes[first | second << 8] = 1 + (first >> 1) if first < 128 else 2 + (first >> 1 & 63 | second << 6)
    return sizes


@cache
def _format(before_key: int, key_size: int) -> Struct:
    return Struct(f"<H{before_key}s{key_size}sB")


def read_rows(data: bytes, position: int, deltas: Sequence[bytes]) -> Rows | None:
    """Return the records from `position` on that have the layout of the first one; None if that layout is unsupported.

    `deltas` are the expected bytes of the offset deltas: the first byte of each, then the second byte of each.
    """
    sizes = record_sizes()
    rows: list[_Row] = []
    add = rows.append
    try:
        layout = _layout(data, position, len(deltas))
        if layout is None:
            return None
        unpack = _format(layout.key_at, layout.key_size).unpack_from
        for _ in range(len(deltas[0])):
            row: _Row = unpack(data, position)
            add(row)
            position += sizes[row[0]]
    except (StructError, IndexError):
        pass  # no more records; the caller detects errors
    return _uniform_rows(rows, layout, deltas) if rows and layout is not None else None


def _layout(data: bytes, position: int, delta_bytes: int) -> _Layout | None:
    after = position + 2
    timestamp_at = after if data[position] < 128 else after + 1
    delta_at = timestamp_at + 1
    while data[delta_at - 1] > 127:
        delta_at += 1
    size_at = delta_at + delta_bytes
    size, key_at = data[size_at], size_at + 1
    if size & 1:
        return None
    size >>= 1
    if size > 63:
        size = size & 63 | data[key_at] << 6
        key_at += 1
        if size >= 1 << 13:
            return None
    return _Layout(timestamp_at - after, delta_at - after, size_at - after, key_at - after, size)


def _uniform_rows(rows: list[_Row], layout: _Layout, deltas: Sequence[bytes]) -> Rows | None:
    """Return the leading rows that have the layout."""
    timestamp_at, delta_at, size_at, key_at, key_size = layout
    words, heads, keys, value_sizes = zip(*rows, strict=True)
    beginnings = b"".join(heads)
    uniform = len(rows)
    for at in range(timestamp_at, delta_at):
        uniform = min(uniform, _leading(beginnings[at::key_at].translate(_GOES_ON), int(at < delta_at - 1)))
    for at in range(size_at, key_at):
        uniform = min(uniform, _leading(beginnings[at::key_at], beginnings[at]))
    for index, expected in enumerate(deltas):
        if beginnings[delta_at + index :: key_at][:uniform] != expected[:uniform]:
            return None
    record_size = record_sizes()
    sizes = [record_size[word] for word in words[:uniform]]
    # The length has one or two bytes, and everything up to the value's size is within the record.
    one_byte = timestamp_at == 0
    if min(sizes) < 2 + key_at + key_size + 1 or (max(sizes) > 64 if one_byte else min(sizes) < 66):
        return None
    return Rows(keys[:uniform], value_sizes[:uniform], sizes)


def _leading(column: bytes, byte: int) -> int:
    """Return how many leading bytes of a column equal `byte`."""
    return len(column) - len(column.lstrip(bytes([byte])))
