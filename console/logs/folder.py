"""A partition's folder: its segments, and what else lies in it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from console.errors import NotThere
from console.logs.segment import Segment
from storage.directory_names import DirectoryKind, parse_name

_SEGMENT_FILE = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex)")


@dataclass(frozen=True, slots=True)
class OtherFile:
    """A file that belongs to no segment, or to one only as a snapshot of its producers."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Folder:
    """As it was when it was looked at. `kind` tells of folders that are on their way out, or in."""

    path: str
    name: str
    kind: DirectoryKind
    topic: str
    partition: int
    segments: tuple[Segment, ...]
    others: tuple[OtherFile, ...]

    @property
    def size_bytes(self) -> int:
        """Of all its files."""
        return sum(sum(each.sizes.values()) for each in self.segments) + sum(each.size_bytes for each in self.others)

    def segment(self, base_offset: int) -> Segment:
        """The one that begins there. NotThere."""
        for each in self.segments:
            if each.base_offset == base_offset:
                return each
        raise NotThere(f"{self.name} has no segment {base_offset}")


def is_partition(name: str) -> bool:
    """Whether a folder of a log directory is a partition's, in use or not."""
    return parse_name(name)[0] is not DirectoryKind.OTHER


def read_folder(path: str) -> Folder:
    """What lies there now. NotThere: it is gone, or no partition's."""
    name = os.path.basename(path)
    kind, topic, partition = parse_name(name)
    if kind is DirectoryKind.OTHER:
        raise NotThere(f"{name} is no partition's folder")
    sizes: dict[int, dict[str, int]] = {}
    others = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    size = entry.stat(follow_symlinks=False).st_size
                except FileNotFoundError:
                    continue  # removed since
                if match := _SEGMENT_FILE.fullmatch(entry.name):
                    sizes.setdefault(int(match[1]), {})[match[2]] = size
                else:
                    others.append(OtherFile(entry.name, size))
    except (OSError, ValueError):  # gone, no folder, a disk that has failed, or a name that no file can have
        raise NotThere(f"there is no folder {name} that can be read") from None
    segments = tuple(Segment(path, base, files) for base, files in sorted(sizes.items()) if "log" in files)
    return Folder(path, name, kind, topic, partition, segments, tuple(sorted(others, key=lambda each: each.name)))
