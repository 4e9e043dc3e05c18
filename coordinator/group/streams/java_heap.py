"""A binary heap that returns equal entries in the order of Java's PriorityQueue, unlike Python's heapq."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class JavaHeap(Generic[T]):
    """The entry with the lowest `rank` is first. A rank may change only while its entry is not in the heap."""

    __slots__ = ("_entries", "_rank")

    def __init__(self, rank: Callable[[T], float]) -> None:
        self._rank = rank
        self._entries: list[T] = []

    def __len__(self) -> int:
        return len(self._entries)

    def push(self, entry: T) -> None:
        """Add an entry. It rises above entries of a higher rank, but not above equal ones."""
        entries, rank = self._entries, self._rank
        at, value = len(entries), rank(entry)
        entries.append(entry)
        while at:
            parent = (at - 1) // 2
            if value >= rank(entries[parent]):
                break
            entries[at] = entries[parent]
            at = parent
        entries[at] = entry

    def pop(self) -> T:
        """Remove and return the first entry.

        The last one sinks from the top, along the smaller child, or the left one of equals.
        """
        entries, rank = self._entries, self._rank
        first, entry = entries[0], entries.pop()
        size = len(entries)
        if not size:
            return first
        at, value = 0, rank(entry)
        while (below := 2 * at + 1) < size:
            if below + 1 < size and rank(entries[below]) > rank(entries[below + 1]):
                below += 1
            if value <= rank(entries[below]):
                break
            entries[at] = entries[below]
            at = below
        entries[at] = entry
        return first
