"""Where the readers of a segment are: the batches found for them, and where the next ones begin.

A consumer continues where its last batch ended, and often one consumer follows another: neither has to search again.
"""

from __future__ import annotations

from typing import NamedTuple

#: At least this many finds are remembered, and at most twice as many. With more readers, some have to search.
_REMEMBERED = 32


class Place(NamedTuple):
    """Where a batch lies in its file: from `position` to `end`."""

    base_offset: int
    position: int
    end: int


class Places:
    """Knows the place of the batch by an offset that was asked for, and by the offset after it where that begins."""

    __slots__ = ("_earlier", "_latest")

    def __init__(self) -> None:
        self._latest: dict[int, Place | int] = {}
        self._earlier: dict[int, Place | int] = {}

    def get(self, offset: int) -> Place | int | None:
        """What is known of an offset."""
        return self._latest.get(offset) or self._earlier.get(offset)

    def note(self, offset: int, place: Place, next_offset: int) -> Place:
        """Remember what was found for an offset, and that `next_offset` begins behind it; the same place."""
        latest = self._latest
        if len(latest) >= 2 * _REMEMBERED:
            self._earlier, latest = latest, {}
            self._latest = latest
        latest[offset] = place
        if next_offset not in latest:
            latest[next_offset] = self._earlier.get(next_offset) or place.end
        return place
