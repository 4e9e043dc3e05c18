"""The answer of `/queries`: Spark queries that the broker follows, as JSON for programs such as `pybroker groups`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from broker.external_readers.spark.checkpoints import CheckpointCheck, Query
from broker.observability.metrics.metric_table import QUERY_LAG
from broker.observability.metrics.snapshot import Snapshot
from storage.checkpoints import TopicPartition


def queries_json(found: CheckpointCheck | None, snapshot: Snapshot) -> bytes:
    """Return an object with `queries`, `problems` by path, and whether all queries are known. Safe in any thread.

    `snapshot` has samples of their lag; the answer has null for partitions of other processes.
    """
    found = found or CheckpointCheck(is_known=False)
    lags = dict(snapshot.get(QUERY_LAG, ()))
    fields = {
        "queries": [_query(query, lags) for query in found.queries],
        "problems": dict(found.problems),
        "all_known": found.is_known,
    }
    return json.dumps(fields).encode() + b"\n"


def _query(query: Query, lags: Mapping[tuple[str, ...], Any]) -> dict[str, object]:
    progress = query.progress
    return {
        "query": query.name,
        "checkpoint": query.path,
        "batch": progress.batch,
        "running_batch": progress.running,
        "committed_ms": progress.committed_ms,
        "partitions": [
            {
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "lag": lags.get((query.name, topic, str(partition))),
            }
            for (topic, partition), offset in _partitions(query)
        ],
    }


def _partitions(query: Query) -> Iterator[tuple[TopicPartition, int | None]]:
    """Yield partitions in order, with the next offset to read; None if it is unknown because no batch is finished."""
    positions = query.progress.positions
    for place in sorted({*positions, *query.progress.unknown}):
        yield place, positions.get(place)
