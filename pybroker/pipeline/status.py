"""`pybroker pipeline status`: the position and the lag of each query. It does not need Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any

from pybroker.pipeline import checkpoint
from pybroker.pipeline.checkpoint import Progress
from pybroker.pipeline.cluster import Cluster, ClusterError
from pybroker.pipeline.queries import Query, queries
from pybroker.pipeline.spec import Pipeline, SpecError

Ends = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """The position of a query and the ends of its partitions; `ends` is None when the broker does not respond."""

    query: Query
    progress: Progress
    ends: Ends | None

    def lag(self) -> int | None:
        """Return the lag in offsets, over the partitions that the query has begun."""
        if self.ends is None:
            return None
        return sum(max(0, end - offset) for _, _, offset, end in self.positions() if end is not None)

    def positions(self) -> Iterator[tuple[str, int, int, int | None]]:
        """Yield topic, partition, the next offset to read, and the end."""
        for topic, partitions in sorted(self.progress.offsets.items()):
            for partition, offset in sorted(partitions.items()):
                yield topic, partition, offset, (self.ends or {}).get((topic, partition))

    def as_json(self) -> dict[str, Any]:
        """Return the status as a JSON object."""
        names = ("topic", "partition", "offset", "end")
        return {
            "query": self.query.name,
            "source": self.query.source_name,
            "sink": self.query.sink.place(),
            "batch": self.progress.batch,
            "running_batch": self.progress.running,
            "watermark_ms": self.progress.watermark_ms,
            "lag": self.lag(),
            "partitions": [dict(zip(names, position, strict=True)) for position in self.positions()],
        }

    def lines(self) -> Iterator[str]:
        """Yield the status as lines of text."""
        if self.progress.batch is None:
            yield f"{self.query.name}: no batch is done yet"
            return
        lag = self.lag()
        behind = "the broker does not answer" if lag is None else f"{lag:,} behind"
        running = f", batch {self.progress.running} has begun" if self.progress.running is not None else ""
        yield f"{self.query.name}: batch {self.progress.batch}, {behind}{running}"
        if self.progress.watermark_ms:
            yield f"  watermark {_time(self.progress.watermark_ms)}"
        for topic, partition, offset, end in self.positions():
            yield f"  {topic}-{partition}  offset {offset:,}  end {'?' if end is None else f'{end:,}'}"


def _time(ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):  # Spark's times may be after the year 9999, Python's last one
        return f"{ms:,} ms since 1970"


def statuses(pipeline: Pipeline) -> tuple[list[QueryStatus], str | None]:
    """Return the status of all queries, and why the ends are unknown, if they are.

    Errors: SpecError for checkpoints outside of the local file system; CheckpointError; OSError.
    """
    found = [(query, _progress(query)) for query in queries(pipeline)]
    ends: list[Ends | None] = []
    complaint = None
    try:
        cluster = Cluster(pipeline.kafka)
        known = cluster.partitions()
        for query, progress in found:
            read = [(topic, one) for topic, partitions in progress.offsets.items() for one in partitions]
            there = [(topic, one) for topic, one in read if one in known.get(topic, ())]
            ends.append(cluster.ends(there, committed=query.source.isolation == "read_committed"))
    except ClusterError as error:  # a broker that does not respond is not asked again
        complaint = str(error)
    pairs = zip_longest(found, ends)
    return [QueryStatus(query, progress, its_ends) for (query, progress), its_ends in pairs], complaint


def _progress(query: Query) -> Progress:
    folder = checkpoint.local(query.checkpoint)
    if folder is None:
        raise SpecError("checkpoint_root", f"{query.checkpoint} is not in the local file system, which status needs")
    return checkpoint.progress(folder)
