"""Entries of a segment's index files."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from struct import Struct

from console.anatomy.index import INDEX_KINDS, IndexKind
from console.errors import NotFound
from console.logs.segment import Segment

_OFFSET_ENTRY = Struct(">ii")
#: The largest index of a 2 GiB segment at Kafka's smallest interval; a damaged or hostile file may be larger.
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class IndexFile:
    """The bytes of an index: `count` entries are in use; zeros after them are reserved space."""

    data: bytes
    count: int
    file_bytes: int


def read_index(segment: Segment, suffix: str, kind: IndexKind) -> IndexFile:
    """Return all entries. Raises NotFound if the segment has no such file."""
    try:
        with open(segment.path(suffix), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(min(size, _MOST_BYTES))
    except FileNotFoundError:
        raise NotFound(f"the segment's .{suffix} has been removed meanwhile") from None
    width = kind.entry_bytes
    # the active index has its full size, with zeros after the last entry; the entry itself may end with zeros
    used = len(data.rstrip(b"\0"))
    count = min(-(-used // width), len(data) // width)
    return IndexFile(data[: count * width], count, size)


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """An entry of a .index: its `number` from 0, and the `last_offset` of the batch that begins at `position`."""

    number: int
    last_offset: int
    position: int


class OffsetEntries:
    """The entries of a .index, in order. Each is decoded on access, because there may be millions."""

    def __init__(self, data: bytes, base_offset: int) -> None:
        self._data = data
        self._base_offset = base_offset

    def __len__(self) -> int:
        return len(self._data) // _OFFSET_ENTRY.size

    def __getitem__(self, number: int) -> OffsetEntry:
        relative, position = _OFFSET_ENTRY.unpack_from(self._data, number * _OFFSET_ENTRY.size)
        return OffsetEntry(number, self._base_offset + relative, position)

    def floor(self, offset: int) -> OffsetEntry | None:
        """Return the last entry not above `offset`; None if all are above."""
        found = bisect_right(self, offset, key=lambda each: each.last_offset)
        return self[found - 1] if found else None

    def within(self, start: int, end: int, limit: int) -> list[OffsetEntry]:
        """Return at most `limit` entries that point between `start` and `end`: a damaged file may have any number."""
        first = bisect_left(self, start, key=lambda each: each.position)
        behind = bisect_left(self, end, key=lambda each: each.position)
        return [self[number] for number in range(first, min(behind, first + limit))]


def offset_entries(segment: Segment) -> OffsetEntries:
    """Return the entries of the .index; none if the file is missing."""
    data = read_index(segment, "index", INDEX_KINDS["index"]).data if "index" in segment.sizes else b""
    return OffsetEntries(data, segment.base_offset)
