"""An archive of one topic, and the archive commands in the test's own Spark; the archive's rows and the topic's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import pybroker
from pybroker.archive.archiving import archive_ranges
from pybroker.archive.compacting import compact
from pybroker.archive.inputs import BrokerInput, Input
from pybroker.archive.jobs import rewrite_files, write_ranges
from pybroker.archive.manifest import ArchivedRange, decode
from pybroker.archive.parquet import count_rows
from pybroker.archive.planning import wanted_ranges
from pybroker.archive.restoring import Restored, Target, restore
from pybroker.archive.store import Archive
from pybroker.archive.verifying import verify

FIELDS = ["key", "value", "partition", "offset", "timestamp", "timestampType", "headers"]


def stored(data: Path, topic: str, *, committed: bool = False) -> list[dict[str, Any]]:
    """Return the records in a topic's files, by partition and offset."""
    found = pybroker.read(data, topics=[topic], columns=FIELDS, committed=committed).read_all().to_pylist()
    return [dict(row) for row in found]


def archived(root: Path) -> list[dict[str, Any]]:
    """Return the rows in an archive's files, by partition and offset, as any reader of Parquet sees them."""
    rows = [row for path in root.glob("topic=*/date=*/*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def archived_count(root: Path) -> int:
    """Return the record count of the manifest, 0 without one."""
    try:
        manifest = decode((root / "_pybroker" / "manifest.json").read_bytes(), "")
    except FileNotFoundError:
        return 0
    return sum(each.records for each in manifest.ranges)


class Lake:
    """An archive of one topic. `client` are the properties of a client of its broker."""

    def __init__(self, root: Path, session: Callable[[], SparkSession], client: Mapping[str, str], topic: str) -> None:
        self.root = root
        self.topic = topic
        self.client = dict(client)
        self._session = session
        self.input: Input = BrokerInput({**self.client, "isolation.level": "read_committed"})

    def archive(self, source: Input | None = None, *, skip: bool = False, step: int = 1 << 30) -> list[ArchivedRange]:
        source = source or self.input
        with Archive(self.root, writing=True) as archive:
            plan = wanted_ranges(source.ends([self.topic]), archive.manifest.ends(), skip_lost=skip)
            write = write_ranges(self._session, source)
            return archive_ranges(archive, plan.ranges, write, count_rows, step_offsets=step)[0]

    def compact(self) -> tuple[int, int]:
        with Archive(self.root, writing=True) as archive:
            return compact(archive, rewrite_files(self._session, archive), count_rows)

    def ranges(self) -> list[ArchivedRange]:
        with Archive(self.root, writing=False) as archive:
            return list(archive.manifest.ranges)

    def verify(self, source: Input | None = None) -> tuple[bool, list[str]]:
        """Return whether the archive is complete, and the log lines about each range."""
        with Archive(self.root, writing=False) as archive:
            found = verify(archive, self._session, source or self.input)
            assert not found.problems
            return found.is_right, [each.log for each in found.ranges]

    def restore(self, into: str, **options: bool) -> list[Restored]:
        with Archive(self.root, writing=False) as archive:
            return restore(archive, self.topic, Target(self.client, into, **options), self._session)
