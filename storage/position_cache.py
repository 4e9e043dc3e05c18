"""The positions at which the readers of a segment continue.

A consumer continues where its last batch ended, and consumers often follow each other. Neither needs a search in the
index.
"""

from __future__ import annotations

from typing import NamedTuple

#: Between this many and twice as many positions are cached. With more readers, some have to search.
_CACHED_POSITIONS = 32


class BatchPosition(NamedTuple):
    """The position of a batch in its file, from `position` to `end` (exclusive)."""

    base_offset: int
    position: int
    end: int


class PositionCache:
    """The positions of batches, by the offset that was requested and by the offset that follows the batch."""

    __slots__ = ("_earlier", "_latest")

    def __init__(self) -> None:
        self._latest: dict[int, BatchPosition | int] = {}
        self._earlier: dict[int, BatchPosition | int] = {}

    def get(self, offset: int) -> BatchPosition | int | None:
        """Return what is cached for an offset: its batch, or the position where it begins."""
        return self._latest.get(offset) or self._earlier.get(offset)

    def put(self, offset: int, batch: BatchPosition, next_offset: int) -> BatchPosition:
        """Cache the batch of `offset` and that `next_offset` begins after it; return the batch."""
        latest = self._latest
        if len(latest) >= 2 * _CACHED_POSITIONS:
            self._earlier, latest = latest, {}
            self._latest = latest
        latest[offset] = batch
        if next_offset not in latest:
            latest[next_offset] = self._earlier.get(next_offset) or batch.end
        return batch
