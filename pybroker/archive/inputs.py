"""Inputs of an archive: topics of a running broker, or a data directory. Both are read with our Spark sources."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pybroker.archive.planning import LogEnds
from pybroker.source.errors import UnknownPartition
from pybroker.source.positions import written_positions
from pybroker.source.ranges import OffsetRange
from pybroker.source.reader import Reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The most offsets of a broker's topic that one task reads. For a directory, a task reads one segment.
_TASK_OFFSETS = 1_000_000


class Input(Protocol):
    """An origin of records. Both methods raise SourceError."""

    def ends(self, topics: Sequence[str]) -> list[LogEnds]:
        """Return the current ends of the partitions of these topics."""

    def rows(self, spark: SparkSession, ranges: Sequence[OffsetRange]) -> DataFrame:
        """Return the records of the ranges, at most one range for each partition, with all columns."""


@dataclass(frozen=True)
class BrokerInput:
    """Topics of a running broker, up to `lag` offsets before the high watermark (or the last stable offset).

    `properties` are a client's, such as bootstrap.servers and isolation.level.
    """

    properties: Mapping[str, str]
    lag: int = 0

    def ends(self, topics: Sequence[str]) -> list[LogEnds]:
        wanted = {"properties": dict(self.properties), "topics": list(topics), "pattern": None, "assigned": None}
        with Reader() as reader:
            ends = reader.ask("topic_ends", **wanted)
        return [
            LogEnds(topic, partition, earliest, max(earliest, latest - self.lag), latest)
            for topic, partition, earliest, latest in ends
        ]

    def rows(self, spark: SparkSession, ranges: Sequence[OffsetRange]) -> DataFrame:
        options = {f"kafka.{name}": value for name, value in self.properties.items()}
        reader = spark.read.format("pybroker").options(**options, **_bounds(ranges))
        return reader.option("includeHeaders", "true").option("maxRecordsPerPartition", _TASK_OFFSETS).load()


@dataclass(frozen=True)
class DirectoryInput:
    """A data directory: its closed segments, with `active` also the open ones, up to `lag` offsets before the end."""

    path: str
    committed: bool
    active: bool = False
    lag: int = 0

    def ends(self, topics: Sequence[str]) -> list[LogEnds]:
        with Reader() as reader:
            ends = reader.ask("log_ends", path=self.path, topics=list(topics), committed=self.committed)
        if others := sorted({each[0] for each in ends} - set(topics)):
            raise UnknownPartition(f"{self.path} holds {others[0]}, not {', '.join(topics)}")
        return [
            LogEnds(
                *(topic, partition, earliest),
                settled=max(earliest, min(latest if self.active else closed, latest - self.lag)),
                latest=latest,
            )
            for topic, partition, earliest, closed, latest in ends
        ]

    def rows(self, spark: SparkSession, ranges: Sequence[OffsetRange]) -> DataFrame:
        level = "read_committed" if self.committed else "read_uncommitted"
        reader = spark.read.format("pybroker-log").options(**{"kafka.isolation.level": level, **_bounds(ranges)})
        return reader.option("includeHeaders", "true").load(self.path)


def _bounds(ranges: Sequence[OffsetRange]) -> dict[str, str]:
    """Return the ranges as options that both sources accept."""
    assigned: dict[str, list[int]] = {}
    for each in ranges:
        assigned.setdefault(each.topic, []).append(each.partition)
    starts: dict[tuple[str, int], Any] = {(each.topic, each.partition): each.start for each in ranges}
    ends: dict[tuple[str, int], Any] = {(each.topic, each.partition): each.end for each in ranges}
    return {
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(written_positions(starts)),
        "endingOffsets": json.dumps(written_positions(ends)),
    }
