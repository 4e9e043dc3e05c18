"""`pybroker pipeline status`: how far each query has come, and what is still before it. Spark is not needed."""

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
    """A query beside its partitions' ends; `ends` is None when the broker does not answer."""

    query: Query
    progress: Progress
    ends: Ends | None

    def lag(self) -> int | None:
        """Return how many offsets are before the query, of partitions that it has begun."""
        if self.ends is None:
            return None
        return sum(max(0, end - offset) for _, _, offset, end in self.positions() if end is not None)

    def positions(self) -> Iterator[tuple[str, int, int, int | None]]:
        """Yield topic, partition, the offset that is read next, and the end."""
        for topic, partitions in sorted(self.progress.offsets.items()):
            for partition, offset in sorted(partitions.items()):
                yield topic, partition, offset, (self.ends or {}).get((topic, partition))

    def as_json(self) -> dict[str, Any]:
        """Return it for machines."""
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
        """Yield it for people."""
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
    except (ValueError, OverflowError, OSError):  # Spark's times go on when Python's, after the year 9999, have ended
        return f"{ms:,} ms since 1970"


def statuses(pipeline: Pipeline) -> tuple[list[QueryStatus], str | None]:
    """Return where all queries are, and why ends are not known, if they are not.

    Errors: SpecError for checkpoints that are not of the local file system; CheckpointError; OSError.
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
    except ClusterError as error:  # who does not answer once, is asked nothing else
        complaint = str(error)
    told = zip_longest(found, ends)
    return [QueryStatus(query, progress, its_ends) for (query, progress), its_ends in told], complaint


def _progress(query: Query) -> Progress:
    folder = checkpoint.local(query.checkpoint)
    if folder is None:
        raise SpecError("checkpoint_root", f"{query.checkpoint} is not of the local file system, which status reads")
    return checkpoint.progress(folder)
