"""Find and read the checkpoints of `pybroker.spark.checkpoints`: which queries exist, and how far each has read.

A path is a checkpoint, or a folder of checkpoints. A query whose checkpoint was removed from its folder is forgotten.
An unreadable checkpoint keeps its last known offsets. So do all below a missing path, which may be a volume that is not
mounted. If it was never readable since the start, what its queries read is unknown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.external_readers.spark.checkpoint import QueryProgress, is_checkpoint, read_checkpoint
from runtime.foreign_files import UnreadableFile, display_names, reason
from storage.checkpoints import TopicPartition

#: In one folder.
_MOST_CHECKPOINTS = 1_000


@dataclass(frozen=True, slots=True)
class Query:
    """A query, with its checkpoint's directory and that directory's name, or full path where two names are equal."""

    name: str
    path: str
    progress: QueryProgress


class Follower(NamedTuple):
    """A query that subscribes to a topic, with the number of its known partitions and the time when it began."""

    name: str
    begun_ms: int
    partitions: int


@dataclass(frozen=True, slots=True)
class CheckpointCheck:
    """The result of one check.

    - `positions`: for each partition the lowest offset that a query reads next; `behind`: the name of that query
    - `followers`: for each topic the queries that also read its later partitions
    - `problems`: by path, why it could not be read
    - `is_known`: False if an unreadable path may have queries that were never seen
    """

    queries: Sequence[Query] = ()
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    behind: Mapping[TopicPartition, str] = field(default_factory=dict)
    followers: Mapping[str, Sequence[Follower]] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    is_known: bool = True


class Checkpoints:
    """Reads checkpoints repeatedly. Only one thread may use it at a time."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = [os.path.abspath(path) for path in dict.fromkeys(paths)]
        #: The last known progress, by configured path and by checkpoint; None: unknown so far.
        self._seen: dict[str, dict[str, QueryProgress | None]] = {}
        self._problems: dict[str, str] = {}

    def look(self) -> CheckpointCheck:
        """Read the checkpoints that have changed. The result lists those that cannot be read as problems."""
        self._problems = {}
        for path in self._paths:
            try:
                found = list(_below(path))
                if not found and not os.listdir(path):
                    raise UnreadableFile("it is empty: is its volume mounted?")
            except (OSError, UnreadableFile) as error:
                self._problems[path] = reason(error)
            else:
                before = self._seen.get(path, {})
                self._seen[path] = {each: self._read(each, before.get(each)) for each in found}
        return self._found()

    def _read(self, path: str, last: QueryProgress | None) -> QueryProgress | None:
        try:
            return read_checkpoint(path, last)
        except (OSError, UnreadableFile) as error:
            self._problems[path] = reason(error)
            return last

    def _found(self) -> CheckpointCheck:
        seen = {path: progress for below in self._seen.values() for path, progress in below.items()}
        known = {path: progress for path, progress in sorted(seen.items()) if progress is not None}
        names = display_names(known)
        queries = [Query(names[path], path, progress) for path, progress in known.items()]
        positions: dict[TopicPartition, int] = {}
        behind: dict[TopicPartition, str] = {}
        followers: dict[str, list[Follower]] = {}
        for query in queries:
            for topic, partitions in query.progress.followed().items():
                follower = Follower(query.name, query.progress.begun_ms or 0, partitions)
                followers.setdefault(topic, []).append(follower)
            for place, offset in _needed(query.progress):
                if offset < positions.get(place, offset + 1):
                    positions[place], behind[place] = offset, query.name
        is_known = (
            len(known) == len(seen)
            and all(path in self._seen for path in self._paths)
            and all(query.progress.is_known for query in queries)
        )
        return CheckpointCheck(queries, positions, behind, followers, self._problems, is_known)


def _needed(progress: QueryProgress) -> Iterator[tuple[TopicPartition, int]]:
    """Yield the offsets from which on the query may still read partitions."""
    yield from progress.positions.items()
    for place in progress.unknown:
        yield place, 0


def _below(path: str) -> Iterator[str]:
    """Yield the path itself, or the checkpoints in it. Raises OSError; UnreadableFile if there are too many."""
    with os.scandir(path) as entries:
        if is_checkpoint(path):
            yield path
            return
        count = 0
        for entry in entries:
            if entry.is_dir() and is_checkpoint(entry.path):
                count += 1
                if count > _MOST_CHECKPOINTS:
                    raise UnreadableFile(f"there are more than {_MOST_CHECKPOINTS} checkpoints")
                yield entry.path
