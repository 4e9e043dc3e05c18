"""An index file of another process: read whole, never written, and verified before use.

While its segment is active, and after a crash, the file is longer than its entries, and ends with zeros.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Any

OFFSET_LAYOUT = Struct(">ii")
"""relative offset, position"""
TIME_LAYOUT = Struct(">qi")
"""timestamp in ms, relative offset"""


class StoredIndex:
    """Entries that ascend in both fields. Readers detect wrong entries when they use them."""

    def __init__(self, data: bytes, layout: Struct) -> None:
        self._data = data
        self._layout = layout
        size = layout.size
        whole = len(data) // size
        zeros = bytes(size)
        self.entries = bisect_left(range(whole), True, key=lambda number: data[number * size :][:size] == zeros)
        #: Whether the file ends with its entries: its segment was closed cleanly.
        self.is_cut = self.entries * size == len(data)

    def last_at_most(self, target: int, field: int = 0) -> tuple[int, int] | None:
        """Return the last entry whose `field` is at most `target`, or None."""
        number = bisect_right(range(self.entries), target, key=lambda number: self._entry(number)[field]) - 1
        return self._entry(number) if number >= 0 else None

    def last(self) -> tuple[int, int] | None:
        """Return the last entry; None in an empty index."""
        return self._entry(self.entries - 1) if self.entries else None

    def _entry(self, number: int) -> tuple[int, int]:
        entry: tuple[Any, Any] = self._layout.unpack_from(self._data, number * self._layout.size)
        return entry
