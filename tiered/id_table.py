"""Find the row of a segment by its id, in 8 to 16 bytes a segment: a dictionary of ids needs more than a row does."""

from __future__ import annotations

from array import array
from collections.abc import Callable

_EMPTY, _REMOVED = 0, 0xFFFFFFFF
_LEAST_SLOTS = 16


class IdTable:
    """A hash table of row numbers. `id_of(row)` gives the id of a row; ids are random, so they are hashes."""

    __slots__ = ("_id_of", "_slots", "_used")

    def __init__(self, id_of: Callable[[int], bytes]) -> None:
        self._id_of = id_of
        #: Row + 1, or a mark; a power of two, at most half full.
        self._slots = array("I", bytes(4 * _LEAST_SLOTS))
        self._used = 0

    def find(self, segment_id: bytes) -> int | None:
        slots = self._slots
        at = self._first_slot(segment_id)
        while (entry := slots[at]) != _EMPTY:
            if entry != _REMOVED and self._id_of(entry - 1) == segment_id:
                return entry - 1
            at = (at + 1) % len(slots)
        return None

    def add(self, segment_id: bytes, row: int) -> None:
        """Add an id that the table does not have."""
        if 2 * self._used >= len(self._slots):
            self.rebuild([entry - 1 for entry in self._slots if entry not in (_EMPTY, _REMOVED)])
        at = self._first_slot(segment_id)
        while self._slots[at] != _EMPTY:
            at = (at + 1) % len(self._slots)
        self._slots[at] = row + 1
        self._used += 1

    def remove(self, segment_id: bytes) -> None:
        """Remove an id that the table has."""
        at = self._first_slot(segment_id)
        while self._slots[at] == _REMOVED or self._id_of(self._slots[at] - 1) != segment_id:
            at = (at + 1) % len(self._slots)
        self._slots[at] = _REMOVED

    def rebuild(self, rows: list[int]) -> None:
        """Replace the content by these rows."""
        size = _LEAST_SLOTS
        while size < 4 * len(rows):
            size *= 2
        self._slots, self._used = array("I", bytes(4 * size)), 0
        for row in rows:
            self.add(self._id_of(row), row)

    def _first_slot(self, segment_id: bytes) -> int:
        return int.from_bytes(segment_id[:8], "big") % len(self._slots)
