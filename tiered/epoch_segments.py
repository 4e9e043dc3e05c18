"""The remote segments of one leader epoch: which one has an offset, and which ones no reader finds."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right


class EpochSegments:
    """Segments are the numbers of their rows in `RemoteSegments`.

    Two replicas may copy the same records, when the leader changes. Then the later copy replaces those that begin at
    its start or above, if it ends no earlier. Replaced and incomplete copies,
    and those that are being deleted, are unreferenced.
    """

    __slots__ = ("_rows", "_starts", "highest_offset", "unreferenced")

    def __init__(self) -> None:
        #: First offsets of this epoch in the finished segments, ascending, and their rows.
        self._starts = array("q")
        self._rows = array("I")
        self.unreferenced: set[int] = set()
        #: The last offset of this epoch in any segment that was finished, also if it is deleted; None: no segment.
        self.highest_offset: int | None = None

    def __bool__(self) -> bool:
        return bool(self._rows or self.unreferenced)

    def start(self, row: int) -> None:
        """The copy of the segment has begun."""
        self.unreferenced.add(row)

    def finish(self, row: int, start_offset: int, end_offset: int) -> None:
        """The copy is complete. It has this epoch's offsets from `start_offset` to `end_offset` (inclusive)."""
        highest = self.highest_offset
        if highest is None or highest <= end_offset:
            first = bisect_left(self._starts, start_offset)
            self.unreferenced.update(self._rows[first:])
            del self._starts[first:], self._rows[first:]
            self.highest_offset = end_offset
        at = bisect_left(self._starts, start_offset)
        same = self._starts[at : at + 1]
        if same and same[0] == start_offset:
            self.unreferenced.add(self._rows[at])
            self._rows[at] = row
        else:
            self._starts.insert(at, start_offset)
            self._rows.insert(at, row)
        self.unreferenced.discard(row)

    def delete(self, row: int, start_offset: int) -> None:
        """The deletion of the segment has begun."""
        at = bisect_left(self._starts, start_offset)
        if at < len(self._rows) and self._rows[at] == row:
            del self._starts[at], self._rows[at]
        self.unreferenced.add(row)

    def forget(self, row: int) -> None:
        """The segment is deleted."""
        self.unreferenced.discard(row)

    def at_or_before(self, offset: int) -> int | None:
        """Return the row of the finished segment with the greatest start that is not above `offset`."""
        at = bisect_right(self._starts, offset)
        return self._rows[at - 1] if at else None

    def rows(self) -> list[int]:
        """Return the rows of all segments; only those of the referenced ones are in order."""
        return [*self._rows, *self.unreferenced]

    def renumber(self, rows: array[int]) -> None:
        """Replace each row number by the one that `rows` has in its place."""
        self._rows = array("I", (rows[row] for row in self._rows))
        self.unreferenced = {rows[row] for row in self.unreferenced}
