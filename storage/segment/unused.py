"""A segment as a start finds it, before anybody asks for its files.

A log may have a hundred thousand segments, of which a few are ever read between two starts. So what stands for a file
is made when it is needed, all four of a segment at once: 0.4 KB for a segment until then, and 2 KB from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.segment.segment import Segment


class UnusedSegment(Segment):
    """Becomes an ordinary segment when one of its files is asked for first.

    A class of its own, since one with `__getattr__` answers more slowly for every attribute, and appends ask for many.
    """

    __slots__ = ()

    def _make_files(self) -> None:
        """Not yet."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """What is missing is one of the files; from here on they are attributes like others."""
            self.__class__ = Segment
            self._make_files()
            return getattr(self, name)

    @property
    def is_active(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing is open."""
