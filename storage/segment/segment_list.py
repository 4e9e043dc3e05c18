"""The segments of one log, by base offset."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import overload

from storage.segment.segment import Segment


class Segments:
    """An ordered set of segments. The last one is active. A segment ends at the base offset of the next one."""

    __slots__ = ("_base_offsets", "_segments")

    def __init__(self) -> None:
        self._base_offsets: list[int] = []
        self._segments: list[Segment] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        """Iterate over a copy of the set, oldest first."""
        return iter(tuple(self._segments))

    @overload
    def __getitem__(self, index: int) -> Segment: ...

    @overload
    def __getitem__(self, index: slice) -> list[Segment]: ...

    def __getitem__(self, index: int | slice) -> Segment | list[Segment]:
        """Return a segment or a slice by its index; negative indexes count from the end."""
        return self._segments[index]

    @property
    def base_offsets(self) -> list[int]:
        return list(self._base_offsets)

    def add(self, segment: Segment) -> None:
        """Add a segment; it replaces one with the same base offset."""
        index = bisect_left(self._base_offsets, segment.base_offset)
        if index < len(self._base_offsets) and self._base_offsets[index] == segment.base_offset:
            self._segments[index] = segment
        else:
            self._base_offsets.insert(index, segment.base_offset)
            self._segments.insert(index, segment)

    def remove(self, segment: Segment) -> None:
        index = bisect_left(self._base_offsets, segment.base_offset)
        if index == len(self._segments) or self._segments[index] is not segment:
            raise KeyError(segment)
        del self._base_offsets[index], self._segments[index]

    def floor(self, offset: int) -> int:
        """Return the index of the segment that contains `offset` or would contain it; -1 if `offset` is below all.

        A binary search over the base offsets.
        """
        return bisect_right(self._base_offsets, offset) - 1

    def from_offset(self, offset: int) -> list[Segment]:
        """Return the segment that contains `offset`, and all later ones."""
        return self._segments[max(0, self.floor(offset)) :]

    def after(self, segment: Segment) -> Segment | None:
        """Return the next segment, or None."""
        index = bisect_right(self._base_offsets, segment.base_offset)
        return self._segments[index] if index < len(self._segments) else None
