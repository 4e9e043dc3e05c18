"""Entries of a segment's index files."""

from __future__ import annotations

import os
from bisect import bisect_right
from dataclasses import dataclass
from struct import Struct

from console.anatomy.index import IndexKind
from console.errors import NotThere
from console.logs.segment import Segment

_OFFSET_ENTRY = Struct(">ii")
#: An index of a segment of 2 GiB at Kafka's smallest distance between entries has no more; a hostile file may.
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class IndexFile:
    """The bytes of an index: `count` entries are in use, what follows them is room for more, as zeros."""

    data: bytes
    count: int
    file_bytes: int


def read_index(segment: Segment, suffix: str, kind: IndexKind) -> IndexFile:
    """All entries. NotThere: the segment has no such file."""
    try:
        with open(segment.path(suffix), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(min(size, _MOST_BYTES))
    except FileNotFoundError:
        raise NotThere(f"the segment's .{suffix} has been removed since") from None
    width = kind.entry_bytes
    count = len(data) // width
    # an index that is being written has its full size: zeros behind the last entry, which is not zero itself
    while count and not any(data[(count - 1) * width : count * width]):
        count -= 1
    return IndexFile(data[: count * width], count, size)


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """An entry of a .index: `number` from 0 on, `last_offset` of the batch that begins at `position`."""

    number: int
    last_offset: int
    position: int


def offset_entries(segment: Segment, kind: IndexKind) -> list[OffsetEntry]:
    """The entries of the .index; none where there is no such file."""
    if "index" not in segment.sizes:
        return []
    data = read_index(segment, "index", kind).data
    return [
        OffsetEntry(number, segment.base_offset + relative, position)
        for number, (relative, position) in enumerate(_OFFSET_ENTRY.iter_unpack(data))
    ]


def floor_entry(entries: list[OffsetEntry], offset: int) -> OffsetEntry | None:
    """The last entry that is not above an offset; None where all are."""
    found = bisect_right(entries, offset, key=lambda each: each.last_offset)
    return entries[found - 1] if found else None
