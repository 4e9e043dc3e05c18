"""Read from its checkpoint directory how far a query of Spark Structured Streaming has read.

Spark's files are read, never written. `offsets/N` has the end of batch N, a line for each source. `commits/N` exists
once that batch is done. `sources/I/0` has the start of Spark's own Kafka source I; the source `pybroker` has no such
file. The end of the newest completed batch counts, since Spark repeats an incomplete one from there. All reading is
done in a thread.

A query that subscribes to a topic also reads partitions that the topic gets later; a query with assigned partitions
does not. Spark does not record which kind a query is. A query that knows a topic's partitions from 0 up to any other
may be either. The checkpoint of a pipeline says which, and so may the partitions that existed when the query began.
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

#: The size limit: some 100,000 partitions.
_FILE_BYTES = 4 << 20
#: The most files of batches. Spark keeps a hundred.
_BATCH_FILES = 100_000
#: The most sources of a query.
_SOURCES = 1_000
_LONG_MAX = (1 << 63) - 1
#: Spark's text for a source that has not been read yet.
_NOTHING = "-"


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """A checkpoint's contents.

    - `batch`: the newest completed one; `running`: one that is planned and not complete; None if there is none
    - `positions`: the offsets that are read next, of sources that are topics
    - `unknown`: partitions of the first, planned batch whose start offset is not recorded anywhere
    - `is_known`: there are certainly no other partitions
    - `begun_ms`: when the query began; None if it reads assigned partitions, and never others
    """

    batch: int | None = None
    running: int | None = None
    positions: Positions = field(default_factory=dict)
    unknown: frozenset[TopicPartition] = frozenset()
    is_known: bool = True
    committed_ms: int | None = None
    begun_ms: int | None = None

    def followed(self) -> Mapping[str, int]:
        """Topics whose later partitions the query also reads, and how many partitions it knows of each."""
        if self.begun_ms is None:
            return {}
        known: dict[str, set[int]] = {}
        for topic, partition in (*self.positions, *self.unknown):
            known.setdefault(topic, set()).add(partition)
        return {topic: len(found) for topic, found in known.items() if max(found) == len(found) - 1}


def is_checkpoint(path: str) -> bool:
    """Return whether a directory looks like a checkpoint of Spark."""
    return any(os.path.isdir(f"{path}/{name}") for name in ("offsets", "commits")) or os.path.isfile(f"{path}/metadata")


def read_checkpoint(path: str, last: QueryProgress | None = None) -> QueryProgress:
    """Read how far a query has read. Unchanged files are not read again: `last` is used.

    Raises UnreadableFile; OSError.
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
    """Return when the query began: Spark writes the file of its id before it sends the broker any request."""
    if _is_assigned(path):
        return None
    try:
        return os.stat(f"{path}/metadata").st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return 0


def _is_assigned(path: str) -> bool:
    """Return whether a pipeline's source names its partitions: "NAME {'topic': [partition]}"."""
    try:
        found = json.loads(read_whole(f"{path}/pybroker.json", _FILE_BYTES))
    except (OSError, ValueError, RecursionError, UnreadableFile):
        return False
    source = found.get("source") if isinstance(found, dict) else None
    return isinstance(source, str) and source.partition(" ")[2].startswith("{")


def _first_batch(path: str, running: int | None, begun: Mapping[int, Positions]) -> QueryProgress:
    """Return the progress of a query that has not completed any batch."""
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
    """Return where each topic source stands after a batch; where it began, if nothing was read yet."""
    ends = _source_lines(f"{path}/offsets/{batch}")
    begun = _begun(path) if None in ends else {}
    return [begun.get(number, {}) if end is None else end for number, end in enumerate(ends)]


def _merged(sources: Iterable[Positions]) -> Positions:
    """Merge sources; where two read the same partition, the lower offset counts."""
    merged: dict[TopicPartition, int] = {}
    for offsets in sources:
        for place, offset in offsets.items():
            merged[place] = min(offset, merged.get(place, offset))
    return merged


def _begun(path: str) -> dict[int, Positions]:
    """Return the offsets at which sources began, by their number."""
    begun: dict[int, Positions] = {}
    for number in _numbers(f"{path}/sources", _SOURCES):
        with suppress(FileNotFoundError, NotADirectoryError):
            # A zero byte comes first, for very old versions of Spark.
            lines = _lines(f"{path}/sources/{number}/0", prefix="\0")
            offsets = _topics(lines[0]) if lines else None
            if offsets is not None:
                begun[number] = offsets
    return begun


def _source_lines(path: str) -> list[Positions | None]:
    """Return the offsets of each source in an offsets file: None if it has none; empty if it is not a topic."""
    lines = _lines(path)
    if not lines:
        raise UnreadableFile(f"{path} has no version line")
    return [None if line == _NOTHING else _topics(line) or {} for line in lines[1:]]


def _lines(path: str, *, prefix: str = "") -> list[str]:
    """Return the lines below the version."""
    try:
        text = read_whole(path, _FILE_BYTES).decode().removeprefix(prefix)
    except UnicodeDecodeError:
        raise UnreadableFile(f"{path} is not text") from None
    version, *lines = text.splitlines() or [""]
    if version != "v1":
        raise UnreadableFile(f"{path} has version {version[:20]!r}, but only v1 is supported")
    return lines


def _topics(line: str) -> Positions | None:
    """Return offsets by topic and partition; None for another kind of source. Raises UnreadableFile."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise UnreadableFile(f"{line[:40]!r} is not JSON") from None
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        return None
    positions: dict[TopicPartition, int] = {}
    for topic, partitions in found.items():
        for partition, offset in partitions.items():
            if not (partition.isascii() and partition.isdecimal() and len(partition) <= 10 and type(offset) is int):
                return None
            if not 0 <= offset <= _LONG_MAX:
                raise UnreadableFile(f"{topic[:80]!r}: {offset} is not an offset")
            positions[topic, int(partition)] = offset
    return positions


def _newest(path: str) -> int | None:
    """Return the highest number among a directory's file names."""
    return max(_numbers(path, _BATCH_FILES), default=None)


def _numbers(path: str, limit: int) -> Iterator[int]:
    try:
        with os.scandir(path) as entries:
            for count, entry in enumerate(entries):
                if count == limit:
                    raise UnreadableFile(f"{path} has more than {limit} files")
                name = entry.name
                if name.isascii() and name.isdecimal() and len(name) <= 18:
                    yield int(name)
    except FileNotFoundError:
        return
