"""Where readers of a segment are: what was found for them, and where the next batch begins.

Consumers go on behind what they got, and often several of them one after the other: neither has to search again.
"""

from __future__ import annotations

from typing import NamedTuple

#: So many finds are remembered at least, and twice as many at most: more readers than that search now and then.
_REMEMBERED = 32


class Place(NamedTuple):
    """Where a batch lies in its file: from `position` to `end`."""

    base_offset: int
    position: int
    end: int


class Places:
    """By the offset that was asked for: the place of its batch. By one that will be: the position where that begins."""

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
