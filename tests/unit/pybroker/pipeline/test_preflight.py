"""What is found before Spark is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker.pipeline import checkpoint, preflight
from pybroker.pipeline.queries import queries
from pybroker.pipeline.spec import Pipeline, SpecError
from tests.support.specifications import document, loaded


class FakeCluster:
    """A broker with one topic of two partitions."""

    def partitions(self) -> dict[str, list[int]]:
        return {"orders": [0, 1]}


def pipeline(tmp_path: Path, **source: Any) -> Pipeline:
    streams = {"q": {"from": "s", "sink": {"format": "parquet", "path": str(tmp_path / "lake" / "rows")}}}
    root = str(tmp_path / "state")
    return loaded(tmp_path, document(sources={"s": source}, streams=streams, checkpoint_root=root))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"topics": ["order"]}, "topics[0]: the broker has no topic 'order'; did you mean orders?"),
        ({"assign": {"orders": [0, 2]}}, "assign.orders: has no partition 2: 2 in all"),
        (
            {"topics": ["orders"], "starting": {"offsets": {"orders": {0: 1}}}},
            "starting.offsets.orders: says nothing of partition 1",
        ),
        (
            {"topics": ["orders"], "starting": {"offsets": {"orders": {0: 1, 1: 1, 2: 1}}}},
            "starting.offsets.orders: has no partition 2: 2 in all",
        ),
    ],
)
def test_topic_that_is_not_there_is_told(tmp_path: Path, source: dict[str, Any], message: str) -> None:
    """And so is a partition."""
    with pytest.raises(SpecError) as refused:
        preflight.check_topics(pipeline(tmp_path, **source), FakeCluster())  # type: ignore[arg-type]
    assert str(refused.value) == f"sources.s.{message}"


def test_what_is_there_is_right(tmp_path: Path) -> None:
    """Nothing is made by looking."""
    one = pipeline(tmp_path, topics=["orders"], starting={"offsets": {"orders": {0: 1, 1: "latest"}}})

    preflight.check_topics(one, FakeCluster())  # type: ignore[arg-type]
    preflight.check_folders(one)
    assert [entry.name for entry in tmp_path.iterdir()] == ["spec.yaml"]


def test_checkpoint_of_another_specification_is_refused(tmp_path: Path) -> None:
    """At the stream, with what differs."""
    preflight.claim_checkpoints(pipeline(tmp_path, topics=["orders"]))
    preflight.check_folders(pipeline(tmp_path, topics=["orders"]))

    with pytest.raises(SpecError, match=r"streams\.q: the checkpoint .* source was .*orders.*, is .*invoices"):
        preflight.check_folders(pipeline(tmp_path, topics=["invoices"]))


def test_folder_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    """Here a file is in its way, which stops everybody."""
    (tmp_path / "lake").write_text("a file")
    with pytest.raises(SpecError, match=r"streams\.q\.sink\.path: .*lake is not a folder"):
        preflight.check_folders(pipeline(tmp_path, topics=["orders"]))


def test_checkpoints_elsewhere_are_left_to_spark(tmp_path: Path) -> None:
    """They are neither read nor made."""
    whole = document(checkpoint_root="s3a://bucket/state")
    one = loaded(tmp_path, whole)

    preflight.claim_checkpoints(one)
    assert [query.checkpoint for query in queries(one)] == ["s3a://bucket/state/q"]
    assert [checkpoint.local(query.checkpoint) for query in queries(one)] == [None]
