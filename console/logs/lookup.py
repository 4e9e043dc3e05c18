"""How an offset is found in a partition, as the broker does it, with the steps kept for people to follow."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from console.errors import NotThere
from console.logs.batches import BatchRow, read_batches
from console.logs.folder import Folder
from console.logs.index_entries import OffsetEntry, offset_entries
from console.logs.segment import Segment

#: Batches that are stepped over before the search is given up: those between two entries of an index are few.
_MOST_STEPS = 100_000
_PAGE = 1_000


@dataclass(frozen=True, slots=True)
class Lookup:
    """The segment whose name is the last not above `offset`, the index entry likewise, the batches looked at behind it.

    `batch` is the first that does not end before the offset. Where compaction has taken the record, it is one behind.
    """

    offset: int
    segment: Segment
    segment_number: int
    entry: OffsetEntry | None
    entry_count: int
    stepped_over: int
    batch: BatchRow


def find(folder: Folder, offset: int) -> Lookup:
    """Find a record. NotThere: the partition has none of that offset or above."""
    number = bisect_right(folder.segments, offset, key=lambda each: each.base_offset) - 1
    if number < 0:
        raise NotThere(f"no segment of {folder.name} begins at offset {offset} or before")
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
    raise NotThere(f"{folder.name} has no record at offset {offset}, nor behind it in its segment")
