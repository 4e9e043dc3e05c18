"""`status`, from checkpoints and a broker's end offsets."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.pipeline import status
from pybroker.pipeline.checkpoint import Progress
from pybroker.pipeline.cluster import ClusterError
from pybroker.pipeline.queries import Query, queries
from pybroker.pipeline.status import QueryStatus
from tests.support.specifications import document, loaded

PROGRESS = Progress(9, {"t": {0: 10, 1: 1600}}, watermark_ms=1_769_846_400_000, running=10)


def query(tmp_path: Path) -> Query:
    return next(queries(loaded(tmp_path, document())))


def test_lag_is_the_distance_to_the_end(tmp_path: Path) -> None:
    """For each partition and in total. Deleted partitions do not count."""
    status = QueryStatus(query(tmp_path), PROGRESS, {("t", 1): 3100})

    assert list(status.lines()) == [
        "q: batch 9, 1,500 behind, batch 10 has begun",
        "  watermark 2026-01-31 08:00:00 UTC",
        "  t-0  offset 10  end ?",
        "  t-1  offset 1,600  end 3,100",
    ]
    assert status.as_json() | {"partitions": []} == {
        "query": "q",
        "source": "s",
        "sink": "parquet rows",
        "batch": 9,
        "running_batch": 10,
        "watermark_ms": 1_769_846_400_000,
        "lag": 1500,
        "partitions": [],
    }


def test_positions_are_shown_without_a_broker(tmp_path: Path) -> None:
    """The lag is unknown then."""
    status = QueryStatus(query(tmp_path), PROGRESS, None)

    assert status.lag() is None
    assert next(status.lines()) == "q: batch 9, the broker does not answer, batch 10 has begun"


def test_broker_that_stops_answering_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its earlier answers and the other queries' positions are shown."""
    answers = iter([{("t", 0): 10}])

    class UnresponsiveCluster:
        def __init__(self, kafka: object) -> None:
            """Connects to nothing."""

        def partitions(self) -> dict[str, list[int]]:
            return {"t": [0]}

        def ends(self, partitions: object, *, committed: bool) -> dict[tuple[str, int], int]:
            for each in answers:
                return each
            raise ClusterError("the broker b:1: no leader")

    monkeypatch.setattr(status, "Cluster", UnresponsiveCluster)
    streams = {name: {"from": "s", "sink": {"format": "console"}} for name in ("a", "b", "c")}
    found, complaint = status.statuses(loaded(tmp_path, document(checkpoint_root=str(tmp_path), streams=streams)))

    assert [each.query.name for each in found] == ["a", "b", "c"]
    assert [each.ends for each in found] == [{("t", 0): 10}, None, None]
    assert complaint == "the broker b:1: no leader"


def test_query_without_a_batch_is_reported(tmp_path: Path) -> None:
    assert list(QueryStatus(query(tmp_path), Progress(), {}).lines()) == ["q: no batch is done yet"]


def test_watermark_beyond_python_datetimes_is_shown(tmp_path: Path) -> None:
    """For example milliseconds that were taken for seconds."""
    status = QueryStatus(query(tmp_path), Progress(0, {}, watermark_ms=1_769_846_400_000_000), {})

    assert list(status.lines())[1] == "  watermark 1,769,846,400,000,000 ms since 1970"
