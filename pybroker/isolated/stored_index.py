"""An index file as somebody else's data: read whole, never written, and believed by nobody before it is borne out.

While its segment is active the file is longer than its entries, and zeros follow them; an index that a crash left is
such a one, too.
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
    """Entries that ascend in both fields. What does not ascend is found where it misleads."""

    def __init__(self, data: bytes, layout: Struct) -> None:
        self._data = data
        self._layout = layout
        size = layout.size
        whole = len(data) // size
        zeros = bytes(size)
        self.entries = bisect_left(range(whole), True, key=lambda number: data[number * size :][:size] == zeros)
        #: Whether the file ends with its entries: its segment was closed in order.
        self.is_cut = self.entries * size == len(data)

    def last_at_most(self, target: int, field: int = 0) -> tuple[int, int] | None:
        """The last entry whose `field` is not above `target`; None where there is none."""
        number = bisect_right(range(self.entries), target, key=lambda number: self._entry(number)[field]) - 1
        return self._entry(number) if number >= 0 else None

    def last(self) -> tuple[int, int] | None:
        """The last entry; None in an empty index."""
        return self._entry(self.entries - 1) if self.entries else None

    def _entry(self, number: int) -> tuple[int, int]:
        entry: tuple[Any, Any] = self._layout.unpack_from(self._data, number * self._layout.size)
        return entry
