"""How far a query of Spark Structured Streaming has come, out of its checkpoint directory.

Spark's files are read, never written: `offsets/N` says where batch N ends, a line for each source, and `commits/N` is
there once that batch is done. `sources/I/0` says where Spark's own Kafka source I began; the source `pybroker` has no
such file. What counts is where the newest batch ended that is done: a batch that is not is done again from there. All
of it is read in a thread.

Partitions that a topic gets later are read by a query that subscribes to it, and not by one that was assigned others.
Spark does not write down which it is. One that knows a topic's partitions from the first to any other may be either; a
pipeline's checkpoint says it, and the partitions that were there when the query was begun tell the rest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from runtime.foreign_files import UnreadableFile, read_whole
from storage.checkpoints import TopicPartition

Positions = Mapping[TopicPartition, int]

#: Some 100,000 partitions.
_FILE_BYTES = 4 << 20
#: Spark keeps a hundred batches.
_BATCH_FILES = 100_000
#: Sources of a query.
_SOURCES = 1_000
_LONG_MAX = (1 << 63) - 1
#: What Spark writes for a source of which nothing has been read yet.
_NOTHING = "-"


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """What a checkpoint says.

    `batch` is the newest that is done, `running` one that was planned and is not; None: there is none. `positions` are
    the offsets that are read next, of sources that are topics. `unknown` are partitions that the first batch is
    planned for, from which offset on is nowhere written. `is_known`: it is certain that there are no others.
    `begun_ms` is when the query was begun; None: it reads the partitions that it was assigned, and never others.
    """

    batch: int | None = None
    running: int | None = None
    positions: Positions = field(default_factory=dict)
    unknown: frozenset[TopicPartition] = frozenset()
    is_known: bool = True
    committed_ms: int | None = None
    begun_ms: int | None = None

    def followed(self) -> Mapping[str, int]:
        """Topics of which it reads partitions that are made later, too, and how many it knows of each."""
        if self.begun_ms is None:
            return {}
        known: dict[str, set[int]] = {}
        for topic, partition in (*self.positions, *self.unknown):
            known.setdefault(topic, set()).add(partition)
        return {topic: len(found) for topic, found in known.items() if max(found) == len(found) - 1}


def is_checkpoint(path: str) -> bool:
    """Whether a directory looks like a checkpoint of Spark's."""
    return any(os.path.isdir(f"{path}/{name}") for name in ("offsets", "commits")) or os.path.isfile(f"{path}/metadata")


def read_checkpoint(path: str, last: QueryProgress | None = None) -> QueryProgress:
    """Read how far a query has come; `last` is what was read before, which is not read again.

    Errors: UnreadableFile; OSError.
    """
    done, planned = _newest(f"{path}/commits"), _newest(f"{path}/offsets")
    running = planned if planned is not None and (done is None or planned > done) else None
    if done is None:
        return replace(_first_batch(path, running, _begun(path)), begun_ms=_begun_ms(path))
    written = os.stat(f"{path}/commits/{done}").st_mtime_ns // 1_000_000
    if last is not None and (last.batch, last.running, last.committed_ms) == (done, running, written):
        return last
    positions = _merged(_ends_of(path, done))
    return QueryProgress(done, running, positions, committed_ms=written, begun_ms=_begun_ms(path))


def _begun_ms(path: str) -> int | None:
    """When the query was begun: the file that says its id was written before anything was asked of the broker."""
    if _is_assigned(path):
        return None
    try:
        return os.stat(f"{path}/metadata").st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return 0


def _is_assigned(path: str) -> bool:
    """Whether a pipeline's checkpoint is of a source that names its partitions: "NAME {'topic': [partition]}"."""
    try:
        found = json.loads(read_whole(f"{path}/pybroker.json", _FILE_BYTES))
    except (OSError, ValueError, RecursionError, UnreadableFile):
        return False
    source = found.get("source") if isinstance(found, dict) else None
    return isinstance(source, str) and source.partition(" ")[2].startswith("{")


def _first_batch(path: str, running: int | None, begun: Mapping[int, Positions]) -> QueryProgress:
    """Of a query that has not done any batch yet."""
    if running is None:
        return QueryProgress(positions=_merged(begun.values()), is_known=bool(begun))
    lines = _source_lines(f"{path}/offsets/{running}")
    unknown = [planned for number, planned in enumerate(lines) if planned is not None and number not in begun]
    return QueryProgress(
        running=running,
        positions=_merged(begun.values()),
        unknown=frozenset(place for planned in unknown for place in planned),
    )


def _ends_of(path: str, batch: int) -> list[Positions]:
    """Where each source that is topics stands behind a batch; one of which nothing is read yet, where it began."""
    ends = _source_lines(f"{path}/offsets/{batch}")
    begun = _begun(path) if None in ends else {}
    return [begun.get(number, {}) if end is None else end for number, end in enumerate(ends)]


def _merged(sources: Iterable[Positions]) -> Positions:
    """Of sources that read the same partition the one that is further behind counts."""
    merged: dict[TopicPartition, int] = {}
    for offsets in sources:
        for place, offset in offsets.items():
            merged[place] = min(offset, merged.get(place, offset))
    return merged


def _begun(path: str) -> dict[int, Positions]:
    """Where sources began, by their number."""
    begun: dict[int, Positions] = {}
    for number in _numbers(f"{path}/sources", _SOURCES):
        with suppress(FileNotFoundError, NotADirectoryError):
            # A zero byte comes first, for versions of Spark that are long gone.
            lines = _lines(f"{path}/sources/{number}/0", prefix="\0")
            offsets = _topics(lines[0]) if lines else None
            if offsets is not None:
                begun[number] = offsets
    return begun


def _source_lines(path: str) -> list[Positions | None]:
    """What a file of offsets says of each source: None where it has none; nothing of those that are no topics."""
    lines = _lines(path)
    if not lines:
        raise UnreadableFile(f"{path} ends before it says anything")
    return [None if line == _NOTHING else _topics(line) or {} for line in lines[1:]]


def _lines(path: str, *, prefix: str = "") -> list[str]:
    """The lines below the version."""
    try:
        text = read_whole(path, _FILE_BYTES).decode().removeprefix(prefix)
    except UnicodeDecodeError:
        raise UnreadableFile(f"{path} is no text") from None
    version, *lines = text.splitlines() or [""]
    if version != "v1":
        raise UnreadableFile(f"{path} is of version {version[:20]!r}, of which only v1 is known")
    return lines


def _topics(line: str) -> Positions | None:
    """Offsets by topic and partition; None where the line is another kind of source's. UnreadableFile."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise UnreadableFile(f"{line[:40]!r} is no JSON") from None
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        return None
    positions: dict[TopicPartition, int] = {}
    for topic, partitions in found.items():
        for partition, offset in partitions.items():
            if not (partition.isascii() and partition.isdecimal() and len(partition) <= 10 and type(offset) is int):
                return None
            if not 0 <= offset <= _LONG_MAX:
                raise UnreadableFile(f"{topic[:80]!r}: {offset} is no offset")
            positions[topic, int(partition)] = offset
    return positions


def _newest(path: str) -> int | None:
    """The highest number among a directory's names."""
    return max(_numbers(path, _BATCH_FILES), default=None)


def _numbers(path: str, most: int) -> Iterator[int]:
    try:
        with os.scandir(path) as entries:
            for count, entry in enumerate(entries):
                if count == most:
                    raise UnreadableFile(f"{path} has more than {most} files")
                name = entry.name
                if name.isascii() and name.isdecimal() and len(name) <= 18:
                    yield int(name)
    except FileNotFoundError:
        return
