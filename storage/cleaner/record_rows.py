"""Records that are alike but for their sizes, taken apart by one format of `struct`, which the first of them tells.

What a format says is true where the varints of all records have the same sizes and their keys, too. Whether they do is
looked at afterwards, for all of them together: the same byte of each is a slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import NamedTuple

#: Of each byte, whether the varint goes on behind it.
_GOES_ON = bytes(128) + bytes([1]) * 128

#: The first two bytes, little-endian; the others up to the key; the key; the first byte of the value's size.
_Row = tuple[int, bytes, bytes, int]


class Rows(NamedTuple):
    """Of records that lie one behind the other: keys, first bytes of the values' sizes, and sizes of the records."""

    keys: Sequence[bytes]
    value_sizes: Sequence[int]
    sizes: Sequence[int]


class _Layout(NamedTuple):
    """Where the bytes of a record are, behind its first two: timestamp delta, offset delta, size of the key, key."""

    timestamp_at: int
    delta_at: int
    size_at: int
    key_at: int
    key_size: int


@cache
def record_sizes() -> list[int]:
    """Sizes of records by their first two bytes, little-endian; 0 for those from 8 kB on, and those that cannot be.

    A size in more bytes than it needs is none of these: where the rest lies would not be told by the size.
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
    """The records from there on, as many as are like the first one. None: it is not of a layout for that.

    `deltas`: the bytes that their offset deltas should have; first the first one of each, then the second one of each.
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
        pass  # the records are at an end, and what is wrong with that is for others to tell
    return _alike(rows, layout, deltas) if rows and layout is not None else None


def _layout(data: bytes, position: int, delta_bytes: int) -> _Layout | None:
    behind = position + 2
    timestamp_at = behind if data[position] < 128 else behind + 1
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
    return _Layout(timestamp_at - behind, delta_at - behind, size_at - behind, key_at - behind, size)


def _alike(rows: list[_Row], layout: _Layout, deltas: Sequence[bytes]) -> Rows | None:
    """The first of these, as many as have the layout."""
    timestamp_at, delta_at, size_at, key_at, key_size = layout
    words, heads, keys, value_sizes = zip(*rows, strict=True)
    beginnings = b"".join(heads)
    alike = len(rows)
    for at in range(timestamp_at, delta_at):
        alike = min(alike, _leading(beginnings[at::key_at].translate(_GOES_ON), int(at < delta_at - 1)))
    for at in range(size_at, key_at):
        alike = min(alike, _leading(beginnings[at::key_at], beginnings[at]))
    for place, expected in enumerate(deltas):
        if beginnings[delta_at + place :: key_at][:alike] != expected[:alike]:
            return None
    record_size = record_sizes()
    sizes = [record_size[word] for word in words[:alike]]
    # A length of one byte, or of two, and all up to the value's size within the record
    one_byte = timestamp_at == 0
    if min(sizes) < 2 + key_at + key_size + 1 or (max(sizes) > 64 if one_byte else min(sizes) < 66):
        return None
    return Rows(keys[:alike], value_sizes[:alike], sizes)


def _leading(column: bytes, byte: int) -> int:
    """How often it is that byte, at the beginning."""
    return len(column) - len(column.lstrip(bytes([byte])))
