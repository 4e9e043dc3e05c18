"""Find an offset in a partition as the broker does, and keep the steps to show them."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from console.errors import NotFound
from console.logs.batches import BatchRow, read_batches
from console.logs.folder import Folder
from console.logs.index_entries import OffsetEntry, offset_entries
from console.logs.segment import Segment

#: Batches that a search steps over at most; between two index entries are only a few.
_MOST_STEPS = 100_000
_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class Lookup:
    """The last segment and index entry whose offset is not above `offset`, and the batches read after that entry.

    `batch` is the first one that does not end before the offset. If compaction removed the record, it is a later one.
    """

    offset: int
    segment: Segment
    segment_number: int
    entry: OffsetEntry | None
    entry_count: int
    stepped_over: int
    batch: BatchRow


def find(folder: Folder, offset: int) -> Lookup:
    """Find an offset. Raises NotFound if the partition has no record at or above it."""
    number = bisect_right(folder.segments, offset, key=lambda each: each.base_offset) - 1
    if number < 0:
        raise NotFound(f"no segment of {folder.name} begins at or before offset {offset}")
    segment = folder.segments[number]
    entries = offset_entries(segment)
    entry = entries.floor(offset)
    position: int | None = entry.position if entry is not None else 0
    stepped_over = 0
    while position is not None and stepped_over < _MOST_STEPS:
        page = read_batches(segment, position, _PAGE)
        for row in page.rows:
            if row.last_offset >= offset:
                return Lookup(offset, segment, number, entry, len(entries), stepped_over, row)
            stepped_over += 1
        position = page.next_position
    raise NotFound(f"{folder.name} has no record at offset {offset}, nor after it in its segment")
