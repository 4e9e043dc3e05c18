"""The remote segments of one leader epoch: which one has an offset, and which ones no reader finds."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator


class EpochSegments:
    """Segments are the numbers of their rows in `RemoteSegments`.

    Two replicas may copy the same records, when the leader changes. Then the later copy replaces those that begin at
    its start or above, if it ends no earlier. Replaced and incomplete copies,
    and those that are being deleted, are unreferenced.

    Referenced segments of one epoch are in order: both their starts and their ends ascend. `odd` are the exceptions:
    segments of several epochs, and copies that were finished late. `size_of(row)` returns the bytes of a segment.
    """

    __slots__ = ("_rows", "_size_of", "_starts", "highest_offset", "odd", "ordered_bytes", "unreferenced")

    def __init__(self, size_of: Callable[[int], int]) -> None:
        self._size_of = size_of
        #: First offsets of this epoch in the finished segments, ascending, and their rows.
        self._starts = array("q")
        self._rows = array("I")
        self.unreferenced: set[int] = set()
        self.odd: set[int] = set()
        #: The size of the referenced segments that are in order.
        self.ordered_bytes = 0
        #: The last offset of this epoch in any segment that was finished, also if it is deleted; None: no segment.
        self.highest_offset: int | None = None

    def __bool__(self) -> bool:
        return bool(self._rows or self.unreferenced)

    def start(self, row: int, *, is_odd: bool) -> None:
        """The copy of the segment has begun. It is odd if it has other epochs, too."""
        self.unreferenced.add(row)
        if is_odd:
            self.odd.add(row)

    def finish(self, row: int, start_offset: int, end_offset: int) -> None:
        """The copy is complete. It has this epoch's offsets from `start_offset` to `end_offset` (inclusive)."""
        highest = self.highest_offset
        is_late = highest is not None and highest > end_offset
        at = bisect_left(self._starts, start_offset)
        if not is_late:
            self._unreference(at, len(self._rows))
            self.highest_offset = end_offset
        elif self._starts[at : at + 1] == array("q", (start_offset,)):
            self._unreference(at, at + 1)
        if is_late:
            self.odd.add(row)
        self._starts.insert(at, start_offset)
        self._rows.insert(at, row)
        self.unreferenced.discard(row)
        if row not in self.odd:
            self.ordered_bytes += self._size_of(row)

    def _unreference(self, first: int, end: int) -> None:
        removed = self._rows[first:end]
        self.unreferenced.update(removed)
        self.ordered_bytes -= sum(self._size_of(row) for row in removed if row not in self.odd)
        del self._starts[first:end], self._rows[first:end]

    def delete(self, row: int, start_offset: int) -> bool:
        """The deletion of the segment has begun. Returns whether it was referenced."""
        at = bisect_left(self._starts, start_offset)
        is_referenced = at < len(self._rows) and self._rows[at] == row
        if is_referenced:
            self._unreference(at, at + 1)
        self.unreferenced.add(row)
        return is_referenced

    def forget(self, row: int) -> None:
        """The segment is deleted."""
        self.unreferenced.discard(row)
        self.odd.discard(row)

    def at_or_before(self, offset: int) -> int | None:
        """Return the row of the finished segment with the greatest start that is not above `offset`."""
        at = bisect_right(self._starts, offset)
        return self._rows[at - 1] if at else None

    def rows(self) -> list[int]:
        """Return the rows of all segments; only those of the referenced ones are in order."""
        return [*self._rows, *self.unreferenced]

    def referenced_odd(self) -> set[int]:
        """Return the rows of the odd segments that are referenced."""
        return self.odd - self.unreferenced

    def ordered(self) -> Iterator[tuple[int, int]]:
        """Return starts and rows of the referenced segments that are in order, from the first one."""
        return ((self._starts[at], row) for at, row in enumerate(self._rows) if row not in self.odd)

    def ordered_from_last(self) -> Iterator[tuple[int, int]]:
        """Return starts and rows of the referenced segments that are in order, from the last one."""
        places = range(len(self._rows) - 1, -1, -1)
        return ((self._starts[at], self._rows[at]) for at in places if self._rows[at] not in self.odd)

    def renumber(self, rows: array[int]) -> None:
        """Replace each row number by the one that `rows` has in its place."""
        self._rows = array("I", (rows[row] for row in self._rows))
        self.unreferenced = {rows[row] for row in self.unreferenced}
        self.odd = {rows[row] for row in self.odd}
