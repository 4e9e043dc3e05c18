"""The archives of `pybroker.archives`: how far each has come.

One that cannot be read holds nothing, unless it could be read since the start: then it counts with what it said last.
It may lie on a volume that is away for a while, and its records would be lost to it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from broker.external_readers.archives.manifest import ArchiveProgress, read_archive
from runtime.foreign_files import UnreadableFile, reason, shown_names
from storage.checkpoints import TopicPartition


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive: the name of its directory, or all of the path where two have the same, and where it ends."""

    name: str
    path: str
    ends: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Found:
    """What one look has found: archives that could be read, now or before, and by path what is wrong with others."""

    archives: Sequence[Archive] = ()
    problems: Mapping[str, str] = field(default_factory=dict)


class Manifests:
    """Reads them again and again, for one thread at a time."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._names = shown_names(os.path.abspath(path) for path in paths)
        self._seen: dict[str, ArchiveProgress] = {}

    def look(self) -> Found:
        """Read what has changed."""
        problems = {}
        for path in self._names:
            try:
                self._seen[path] = read_archive(path, self._seen.get(path))
            except (OSError, UnreadableFile) as error:
                problems[path] = reason(error)
        archives = [Archive(self._names[path], path, progress.ends) for path, progress in self._seen.items()]
        return Found(archives, problems)
