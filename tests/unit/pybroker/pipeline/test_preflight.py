"""Checks before Spark starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pybroker.pipeline import checkpoint, preflight
from pybroker.pipeline.queries import queries
from pybroker.pipeline.spec import Pipeline, SpecError
from tests.support.specifications import document, loaded


class FakeCluster:
    """A broker with a topic of two partitions and others of one, without automatic topic creation."""

    auto_creation = "false"

    def partitions(self) -> dict[str, list[int]]:
        return {"orders": [0, 1], "compacted": [0], "letters": [0]}

    def settings(self, topic: str | None = None) -> dict[str, str]:
        if topic is None:
            return {"auto.create.topics.enable": self.auto_creation, "message.max.bytes": "5000"}
        policy = "compact" if topic == "compacted" else "delete"
        return {"max.message.bytes": "1048588", "cleanup.policy": policy}


class CreatingCluster(FakeCluster):
    """A broker with automatic topic creation."""

    auto_creation = "true"


class ClusterWithHiddenConfigs(FakeCluster):
    """A broker that denies access to its configs."""

    def settings(self, topic: str | None = None) -> dict[str, str]:
        return {}


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
            "starting.offsets.orders: does not name partition 1",
        ),
        (
            {"topics": ["orders"], "starting": {"offsets": {"orders": {0: 1, 1: 1, 2: 1}}}},
            "starting.offsets.orders: has no partition 2: 2 in all",
        ),
    ],
)
def test_missing_topic_is_reported(tmp_path: Path, source: dict[str, Any], message: str) -> None:
    """So is a missing partition."""
    with pytest.raises(SpecError) as refused:
        preflight.check_topics(pipeline(tmp_path, **source), FakeCluster())  # type: ignore[arg-type]
    assert str(refused.value) == f"sources.s.{message}"


def test_existing_topics_are_fine(tmp_path: Path) -> None:
    """The check creates nothing."""
    one = pipeline(tmp_path, topics=["orders"], starting={"offsets": {"orders": {0: 1, 1: "latest"}}})

    preflight.check_topics(one, FakeCluster())  # type: ignore[arg-type]
    preflight.check_folders(one)
    assert [entry.name for entry in tmp_path.iterdir()] == ["spec.yaml"]


def test_checkpoint_of_another_specification_is_refused(tmp_path: Path) -> None:
    """With its stream and the differences."""
    preflight.claim_checkpoints(pipeline(tmp_path, topics=["orders"]))
    preflight.check_folders(pipeline(tmp_path, topics=["orders"]))

    with pytest.raises(SpecError, match=r"streams\.q: the checkpoint .* source was .*orders.*, is .*invoices"):
        preflight.check_folders(pipeline(tmp_path, topics=["invoices"]))


def test_files_of_another_checkpoint_are_refused(tmp_path: Path) -> None:
    """For example if the checkpoint was removed to restart. File sinks list their files, Delta tables do not."""
    listed = tmp_path / "lake" / "rows" / "_spark_metadata"
    listed.mkdir(parents=True)
    (listed / "0").write_text("v1")
    one = pipeline(tmp_path, topics=["orders"])

    with pytest.raises(SpecError, match=r"streams\.q\.sink\.path: .*rows has files of another or a removed checkpoint"):
        preflight.check_folders(one)
    to_delta = replace(one.streams["q"], sink=replace(one.streams["q"].sink, format="delta"))
    preflight.check_folders(replace(one, streams={"q": to_delta}))


def test_unwritable_directory_is_refused(tmp_path: Path) -> None:
    """Here a file is in its place, which also stops root."""
    (tmp_path / "lake").write_text("a file")
    with pytest.raises(SpecError, match=r"streams\.q\.sink\.path: .*lake is not a folder"):
        preflight.check_folders(pipeline(tmp_path, topics=["orders"]))


def test_remote_checkpoints_are_left_to_spark(tmp_path: Path) -> None:
    """They are neither read nor created."""
    whole = document(checkpoint_root="s3a://bucket/state")
    one = loaded(tmp_path, whole)

    preflight.claim_checkpoints(one)
    assert [query.checkpoint for query in queries(one)] == ["s3a://bucket/state/q"]
    assert [checkpoint.local(query.checkpoint) for query in queries(one)] == [None]


def writing(tmp_path: Path, sink: dict[str, Any], letter: dict[str, Any]) -> Pipeline:
    """A pipeline that writes to a topic, and dead letters to another."""
    streams = {"q": {"from": "s", "sink": {"format": "kafka", **sink}}}
    sources = {"s": {"topics": ["orders"], "dead_letter": letter}}
    return loaded(tmp_path, document(sources=sources, streams=streams))


@pytest.mark.parametrize(
    ("sink", "letter", "cluster", "message"),
    [
        (
            {"topic": "orders"},
            {"topic": "leters"},
            FakeCluster(),
            "sources.s.dead_letter.topic: the broker has no topic 'leters', and does not create topics automatically; "
            "did you mean letters?",
        ),
        (
            {"topic": "orders"},
            {"topic": "compacted"},
            FakeCluster(),
            "sources.s.dead_letter.topic: 'compacted' is compacted, and rejects records without a key",
        ),
        (
            {"topic": "orders"},
            {"topic": "letters", "max_bytes": 1_048_589},
            FakeCluster(),
            "sources.s.dead_letter.max_bytes: 1048589 are more than 'letters' accepts: 1048588",
        ),
        (
            {"topic": "orders"},
            {"topic": "new", "max_bytes": 5001},
            CreatingCluster(),
            "sources.s.dead_letter.max_bytes: 5001 are more than 'new' accepts: 5000",
        ),
        (
            {"topic": "new"},
            {"topic": "letters"},
            FakeCluster(),
            "streams.q.sink.topic: the broker has no topic 'new', and does not create topics automatically",
        ),
        (
            {"topic": "compacted"},
            {"topic": "letters"},
            FakeCluster(),
            "streams.q.sink.topic: 'compacted' is compacted, and rejects records without a key",
        ),
    ],
)
def test_unwritable_topic_is_reported(
    tmp_path: Path, sink: dict[str, Any], letter: dict[str, Any], cluster: FakeCluster, message: str
) -> None:
    """For dead letters and sinks, before anything is read."""
    with pytest.raises(SpecError) as refused:
        preflight.check_topics(writing(tmp_path, sink, letter), cluster)  # type: ignore[arg-type]
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("sink", "cluster"),
    [
        ({"topic": "orders"}, FakeCluster()),
        ({"topic": "compacted", "key": "value"}, FakeCluster()),
        ({"topic": "new", "options": {"kafka.bootstrap.SERVERS": "other:9092"}}, FakeCluster()),
        ({"topic": "new"}, CreatingCluster()),
        ({"topic": "new"}, ClusterWithHiddenConfigs()),
    ],
    ids=["exists", "has keys", "of another broker", "is created", "has hidden configs"],
)
def test_writable_topic_is_fine(tmp_path: Path, sink: dict[str, Any], cluster: FakeCluster) -> None:
    """As far as the broker reports."""
    preflight.check_topics(writing(tmp_path, sink, {"topic": "letters"}), cluster)  # type: ignore[arg-type]
