"""A segment as a start finds it, before one of its files is used.

A log may have a hundred thousand segments, of which a few are read between two starts. So the objects for the four
files are created on first use: 0.4 KB per segment until then, and 2 KB afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.segment.segment import Segment


class UnusedSegment(Segment):
    """Becomes an ordinary segment when one of its files is first used.

    It is a separate class, because `__getattr__` slows down every attribute access, and appends make many.
    """

    __slots__ = ()

    def _make_files(self) -> None:
        """Create the files later."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Create the files when one is missing; from then on they are ordinary attributes."""
            self.__class__ = Segment
            self._make_files()
            return getattr(self, name)

    @property
    def is_active(self) -> bool:
        return False

    def close(self) -> None:
        """Do nothing, because no file is open."""
