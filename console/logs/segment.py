"""A segment: the files of a partition that share a base offset."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from console.errors import NotFound


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment; `sizes` are in bytes by suffix, "log" among them."""

    folder: str
    base_offset: int
    sizes: Mapping[str, int]

    @property
    def stem(self) -> str:
        """The common part of its file names, before the dot."""
        return f"{self.base_offset:020d}"

    @property
    def size_bytes(self) -> int:
        """The size of its .log file."""
        return self.sizes["log"]

    def path(self, suffix: str) -> str:
        """Return the path of one of its files. Raises NotFound if it has no such file."""
        if suffix not in self.sizes:
            raise NotFound(f"the segment has no .{suffix}")
        return os.path.join(self.folder, f"{self.stem}.{suffix}")
