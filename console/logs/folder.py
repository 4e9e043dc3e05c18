"""A partition's folder: its segments and its other files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from console.errors import NotFound
from console.logs.segment import Segment
from storage.directory_names import DirectoryKind, parse_name

_SEGMENT_FILE = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex)")


@dataclass(frozen=True, slots=True)
class OtherFile:
    """A file that does not belong to a segment, or is a producer snapshot."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder as of the time it was read. `kind` marks folders that are being deleted or moved in."""

    path: str
    name: str
    kind: DirectoryKind
    topic: str
    partition: int
    segments: tuple[Segment, ...]
    others: tuple[OtherFile, ...]

    @property
    def size_bytes(self) -> int:
        """Return the size of all its files."""
        return sum(sum(each.sizes.values()) for each in self.segments) + sum(each.size_bytes for each in self.others)

    def segment(self, base_offset: int) -> Segment:
        """Return the segment with that base offset. Raises NotFound."""
        for each in self.segments:
            if each.base_offset == base_offset:
                return each
        raise NotFound(f"{self.name} has no segment {base_offset}")


def is_partition(name: str) -> bool:
    """Whether a folder of a log directory is a partition's, active or not."""
    return parse_name(name)[0] is not DirectoryKind.OTHER


def read_folder(path: str) -> Folder:
    """Read a folder. Raises NotFound if it is missing or not a partition's."""
    name = os.path.basename(path)
    kind, topic, partition = parse_name(name)
    if kind is DirectoryKind.OTHER:
        raise NotFound(f"{name} is not a partition's folder")
    sizes: dict[int, dict[str, int]] = {}
    others = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    size = entry.stat(follow_symlinks=False).st_size
                except FileNotFoundError:
                    continue  # removed meanwhile
                if match := _SEGMENT_FILE.fullmatch(entry.name):
                    sizes.setdefault(int(match[1]), {})[match[2]] = size
                else:
                    others.append(OtherFile(entry.name, size))
    except (OSError, ValueError):  # missing, not a folder, a failed disk, or an impossible file name
        raise NotFound(f"there is no readable folder {name}") from None
    segments = tuple(Segment(path, base, files) for base, files in sorted(sizes.items()) if "log" in files)
    return Folder(path, name, kind, topic, partition, segments, tuple(sorted(others, key=lambda each: each.name)))
