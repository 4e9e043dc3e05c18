"""What an archive has: offset ranges and files, as one file says that is put there at once. Pure.

A range has all records of its offsets that there were when it was read, with their number and checksum. The
checksums of rows are added up modulo 2**64, so that those of adjacent ranges add up, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pybroker.archive.errors import DamagedArchive
from pybroker.source.bounds import TopicPartition

FORMAT, VERSION = "pybroker-archive", 1
#: What the files are to their readers.
PARQUET, DELTA = "parquet", "delta"
_MODULUS = 1 << 64


class ArchivedRange(NamedTuple):
    """Offsets from `start` on, before `end`, of one partition; not each has a record."""

    topic: str
    partition: int
    start: int
    end: int
    records: int
    checksum: int

    @property
    def place(self) -> TopicPartition:
        """Whose offsets they are."""
        return self.topic, self.partition

    @property
    def name(self) -> str:
        """As people are told of it."""
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


class ArchivedFile(NamedTuple):
    """A Parquet file: its path below the archive's, with slashes, its rows, its bytes."""

    path: str
    records: int
    bytes: int

    @property
    def topic(self) -> str:
        """Of its rows, as its first folder says."""
        return self.path.partition("/")[0].removeprefix("topic=")

    @property
    def folder(self) -> str:
        """`topic=T/date=D`."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True)
class Manifest:
    """All of an archive. `run` is the one that wrote this; `replaced` are files that it has put others in place of.

    `table` is "delta" where the files are a Delta table as well, whose log is beside them (delta.py).
    """

    isolation: str = "read_committed"
    run: str = ""
    ranges: tuple[ArchivedRange, ...] = ()
    files: tuple[ArchivedFile, ...] = ()
    replaced: tuple[str, ...] = ()
    table: str = PARQUET

    def ends(self) -> dict[TopicPartition, int]:
        """Where the archive of each partition ends: the first offset that it does not cover."""
        ends: dict[TopicPartition, int] = {}
        for each in self.ranges:
            ends[each.place] = max(ends.get(each.place, 0), each.end)
        return ends

    def topics(self) -> list[str]:
        """The topics that are archived, in order."""
        return sorted({each.topic for each in self.ranges})

    def of_topic(self, topic: str) -> list[ArchivedRange]:
        """A topic's ranges, by partition and offset."""
        return sorted(each for each in self.ranges if each.topic == topic)

    def with_run(self, run: str, ranges: Iterable[ArchivedRange], files: Iterable[ArchivedFile]) -> Manifest:
        """After a run that has archived more."""
        ordered = tuple(sorted([*self.ranges, *ranges]))
        return replace(self, run=run, ranges=ordered, files=tuple(sorted([*self.files, *files])), replaced=())

    def with_compacted(self, run: str, files: Iterable[ArchivedFile], replaced: Iterable[str]) -> Manifest:
        """After a run that has put `files` in place of `replaced`; adjacent ranges become one."""
        gone = frozenset(replaced)
        left = [each for each in self.files if each.path not in gone]
        return replace(
            self,
            run=run,
            ranges=merged(self.ranges),
            files=tuple(sorted([*left, *files])),
            replaced=tuple(sorted(gone)),
        )


def merged(ranges: Iterable[ArchivedRange]) -> tuple[ArchivedRange, ...]:
    """The same offsets in fewer ranges."""
    found: list[ArchivedRange] = []
    for each in sorted(ranges):
        last = found[-1] if found else None
        if last is not None and last.place == each.place and last.end == each.start:
            records, checksum = last.records + each.records, (last.checksum + each.checksum) % _MODULUS
            found[-1] = last._replace(end=each.end, records=records, checksum=checksum)
        else:
            found.append(each)
    return tuple(found)


def encode(manifest: Manifest) -> bytes:
    """As it lies in its file."""
    ranges = [{**each._asdict(), "checksum": f"{each.checksum:016x}"} for each in manifest.ranges]
    told = {
        "format": FORMAT,
        "version": VERSION,
        "isolation": manifest.isolation,
        **({} if manifest.table == PARQUET else {"table": manifest.table}),
        "run": manifest.run,
        "ranges": ranges,
        "files": [each._asdict() for each in manifest.files],
        "replaced": list(manifest.replaced),
    }
    return json.dumps(told, indent=1).encode() + b"\n"


def decode(data: bytes, name: str) -> Manifest:
    """And back; `name` is for errors. Errors: DamagedArchive."""
    try:
        told: Mapping[str, Any] = json.loads(data)
        if (told["format"], told["version"]) != (FORMAT, VERSION):
            raise DamagedArchive(f"{name}: format {told['format']!r}, version {told['version']!r} is not known here")
        manifest = Manifest(
            isolation=told["isolation"],
            table=told.get("table", PARQUET),
            run=told["run"],
            ranges=tuple(ArchivedRange(**{**each, "checksum": int(each["checksum"], 16)}) for each in told["ranges"]),
            files=tuple(ArchivedFile(**each) for each in told["files"]),
            replaced=tuple(told["replaced"]),
        )
        _check(manifest, name)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedArchive(f"{name} is damaged: {error!r}") from None
    return manifest


def _check(manifest: Manifest, name: str) -> None:
    """Errors: DamagedArchive for ranges that overlap or end before they start, and for paths that lead elsewhere."""
    if manifest.table not in (PARQUET, DELTA):
        raise DamagedArchive(f"{name}: a table of {manifest.table!r} is not known here")
    last: ArchivedRange | None = None
    for each in sorted(manifest.ranges):
        if not 0 <= each.start <= each.end or not 0 <= each.records <= each.end - each.start:
            raise DamagedArchive(f"{name}: {each.name} with {each.records} records is no range")
        if last is not None and last.place == each.place and last.end > each.start:
            raise DamagedArchive(f"{name}: {last.name} and {each.name} overlap")
        last = each
    for path in [*manifest.replaced, *(each.path for each in manifest.files)]:
        if not path.startswith("topic=") or ".." in path.split("/"):
            raise DamagedArchive(f"{name}: {path!r} is no file of an archive")
