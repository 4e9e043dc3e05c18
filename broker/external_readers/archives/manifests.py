"""Read the archives of `pybroker.archives`: how far each has read.

An unreadable archive holds nothing, unless it was readable since the start: then its last known offsets count. It may
lie on a volume that is temporarily away, and would lose the records for good.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from broker.external_readers.archives.manifest import ArchiveProgress, read_archive
from runtime.foreign_files import UnreadableFile, display_names, reason
from storage.checkpoints import TopicPartition


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive: where it ends, and its directory's name, or the full path where two have the same name."""

    name: str
    path: str
    ends: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ManifestCheck:
    """The result of one check: archives that are or were readable, and the problems of others by path."""

    archives: Sequence[Archive] = ()
    problems: Mapping[str, str] = field(default_factory=dict)


class Manifests:
    """Reads manifests repeatedly. Only one thread may use it at a time."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._names = display_names(os.path.abspath(path) for path in paths)
        self._seen: dict[str, ArchiveProgress] = {}

    def look(self) -> ManifestCheck:
        """Read the manifests that have changed."""
        problems = {}
        for path in self._names:
            try:
                self._seen[path] = read_archive(path, self._seen.get(path))
            except (OSError, UnreadableFile) as error:
                problems[path] = reason(error)
        archives = [Archive(self._names[path], path, progress.ends) for path, progress in self._seen.items()]
        return ManifestCheck(archives, problems)
