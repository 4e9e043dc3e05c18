"""The manifest: the offset ranges and files of an archive, in one file that is replaced atomically. Pure.

A range has all records that its offsets had when it was read, with their number and checksum. A checksum is the sum
of the row hashes modulo 2**64, so the checksum of two adjacent ranges is the sum of theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pybroker.archive.errors import DamagedArchive
from pybroker.source.bounds import TopicPartition

FORMAT, VERSION = "pybroker-archive", 1
#: How readers see the files: as plain Parquet, or as a Delta table.
PARQUET, DELTA = "parquet", "delta"
_MODULUS = 1 << 64


class ArchivedRange(NamedTuple):
    """Offsets of one partition from `start` (included) to `end` (excluded); an offset may have no record."""

    topic: str
    partition: int
    start: int
    end: int
    records: int
    checksum: int

    @property
    def place(self) -> TopicPartition:
        """Return the partition of the range."""
        return self.topic, self.partition

    @property
    def name(self) -> str:
        """Return the range as messages show it."""
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"


class ArchivedFile(NamedTuple):
    """A Parquet file: its path below the archive's, with slashes, its rows, its bytes."""

    path: str
    records: int
    bytes: int

    @property
    def topic(self) -> str:
        """Return the topic of the rows, from the first folder of the path."""
        return self.path.partition("/")[0].removeprefix("topic=")

    @property
    def folder(self) -> str:
        """`topic=T/date=D`."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True)
class Manifest:
    """The contents of an archive. `run` is the run that wrote this manifest, `replaced` the files that it replaced.

    `table` is "delta" when the files are a Delta table as well, with its log beside them (delta.py).
    """

    isolation: str = "read_committed"
    run: str = ""
    ranges: tuple[ArchivedRange, ...] = ()
    files: tuple[ArchivedFile, ...] = ()
    replaced: tuple[str, ...] = ()
    table: str = PARQUET

    def ends(self) -> dict[TopicPartition, int]:
        """Return, for each partition, the first offset that the archive does not cover."""
        ends: dict[TopicPartition, int] = {}
        for each in self.ranges:
            ends[each.place] = max(ends.get(each.place, 0), each.end)
        return ends

    def topics(self) -> list[str]:
        """Return the archived topics, sorted."""
        return sorted({each.topic for each in self.ranges})

    def of_topic(self, topic: str) -> list[ArchivedRange]:
        """Return the ranges of a topic, ordered by partition and offset."""
        return sorted(each for each in self.ranges if each.topic == topic)

    def with_run(self, run: str, ranges: Iterable[ArchivedRange], files: Iterable[ArchivedFile]) -> Manifest:
        """Return the manifest after a run that archived more ranges."""
        ordered = tuple(sorted([*self.ranges, *ranges]))
        return replace(self, run=run, ranges=ordered, files=tuple(sorted([*self.files, *files])), replaced=())

    def with_compacted(self, run: str, files: Iterable[ArchivedFile], replaced: Iterable[str]) -> Manifest:
        """Return the manifest after a run that replaced `replaced` by `files`; adjacent ranges are merged."""
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
    """Merge adjacent ranges."""
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
    """Return the manifest as the bytes of its file."""
    ranges = [{**each._asdict(), "checksum": f"{each.checksum:016x}"} for each in manifest.ranges]
    fields = {
        "format": FORMAT,
        "version": VERSION,
        "isolation": manifest.isolation,
        **({} if manifest.table == PARQUET else {"table": manifest.table}),
        "run": manifest.run,
        "ranges": ranges,
        "files": [each._asdict() for each in manifest.files],
        "replaced": list(manifest.replaced),
    }
    return json.dumps(fields, indent=1).encode() + b"\n"


def decode(data: bytes, name: str) -> Manifest:
    """Parse the bytes of a manifest; `name` is for error texts. Errors: DamagedArchive."""
    try:
        fields: Mapping[str, Any] = json.loads(data)
        if (fields["format"], fields["version"]) != (FORMAT, VERSION):
            raise DamagedArchive(f"{name}: format {fields['format']!r}, version {fields['version']!r} is not supported")
        manifest = Manifest(
            isolation=fields["isolation"],
            table=fields.get("table", PARQUET),
            run=fields["run"],
            ranges=tuple(ArchivedRange(**{**each, "checksum": int(each["checksum"], 16)}) for each in fields["ranges"]),
            files=tuple(ArchivedFile(**each) for each in fields["files"]),
            replaced=tuple(fields["replaced"]),
        )
        _check(manifest, name)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedArchive(f"{name} is damaged: {error!r}") from None
    return manifest


def _check(manifest: Manifest, name: str) -> None:
    """Check ranges and paths.

    Errors: DamagedArchive for ranges that overlap or end before they start, and for paths outside of the archive.
    """
    if manifest.table not in (PARQUET, DELTA):
        raise DamagedArchive(f"{name}: the table format {manifest.table!r} is not supported")
    last: ArchivedRange | None = None
    for each in sorted(manifest.ranges):
        if not 0 <= each.start <= each.end or not 0 <= each.records <= each.end - each.start:
            raise DamagedArchive(f"{name}: {each.name} with {each.records} records is not a valid range")
        if last is not None and last.place == each.place and last.end > each.start:
            raise DamagedArchive(f"{name}: {last.name} and {each.name} overlap")
        last = each
    for path in [*manifest.replaced, *(each.path for each in manifest.files)]:
        if not path.startswith("topic=") or ".." in path.split("/"):
            raise DamagedArchive(f"{name}: {path!r} cannot be a file of an archive")
