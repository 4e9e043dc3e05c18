"""Checks before Spark starts: topics and folders exist, and checkpoints belong to the queries. They change no data."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from pybroker.pipeline import checkpoint
from pybroker.pipeline.checkpoint import CheckpointError
from pybroker.pipeline.queries import Query, queries
from pybroker.pipeline.spec import Pipeline, Source, SpecError, Starting
from pybroker.pipeline.values import near

if TYPE_CHECKING:
    from pybroker.pipeline.cluster import Cluster


def check_topics(pipeline: Pipeline, cluster: Cluster) -> None:
    """Check that the topics and partitions of sources exist, and that the topics of sinks can be written to.

    Errors: SpecError; ClusterError when the broker does not respond.
    """
    known = cluster.partitions()
    for name, source in pipeline.sources.items():
        for topic, path in source.named_topics().items():
            if topic not in known:
                raise SpecError(f"sources.{name}.{path}", f"the broker has no topic {topic!r}{near(topic, known)}")
        _check_partitions(f"sources.{name}", source, known)
    for query in queries(pipeline):
        if query.sink.topic is not None and not query.sink.is_elsewhere():
            _check_written(query, query.sink.topic, cluster, known)


def _check_written(query: Query, topic: str, cluster: Cluster, known: Collection[str]) -> None:
    """Check that a topic exists or is auto-created, and that it accepts the records, also those without a key."""
    letter = query.source.dead_letter if query.stream is None else None
    path = f"{query.path}.topic" if letter is not None else f"{query.path}.sink.topic"
    settings = cluster.settings(topic if topic in known else None)
    if topic not in known and settings.get("auto.create.topics.enable") == "false":
        raise SpecError(
            path, f"the broker has no topic {topic!r}, and does not create topics automatically{near(topic, known)}"
        )
    if query.sink.record_key is None and "compact" in (settings.get("cleanup.policy") or ""):
        raise SpecError(path, f"{topic!r} is compacted, and rejects records without a key")
    largest = settings.get("max.message.bytes", settings.get("message.max.bytes"))
    if letter is not None and largest is not None and int(largest) < letter.max_bytes:
        raise SpecError(f"{query.path}.max_bytes", f"{letter.max_bytes} are more than {topic!r} accepts: {largest}")


def _check_partitions(path: str, source: Source, known: dict[str, list[int]]) -> None:
    for topic, partitions in source.assign.items():
        if strange := sorted(set(partitions) - set(known[topic])):
            raise SpecError(f"{path}.assign.{topic}", f"has no partition {strange[0]}: {len(known[topic])} in all")
    if not isinstance(source.starting, Starting) or source.starting.offsets is None or source.assign:
        return
    for topic, offsets in source.starting.offsets.items():
        where = f"{path}.starting.offsets.{topic}"
        if missing := sorted(set(known[topic]) - set(offsets)):
            raise SpecError(where, f"does not name partition {missing[0]}")
        if strange := sorted(set(offsets) - set(known[topic])):
            raise SpecError(where, f"has no partition {strange[0]}: {len(known[topic])} in all")


def check_folders(pipeline: Pipeline) -> None:
    """Check that local checkpoints and files belong to these queries, and that local folders are writable.

    Errors: SpecError.
    """
    for query in queries(pipeline):
        folder = checkpoint.local(query.checkpoint)
        if folder is not None:
            _check_writable(folder, "checkpoint_root")
            try:
                checkpoint.check(folder, query.identity())
            except CheckpointError as error:
                raise SpecError(query.path, str(error)) from error
        if query.sink.path is not None and (lake := checkpoint.local(query.sink.path)) is not None:
            _check_writable(lake, f"{query.path}.sink.path")
            if folder is not None and query.sink.is_files():
                _check_files(folder, lake, f"{query.path}.sink.path")


def _check_files(folder: Path, lake: Path, path: str) -> None:
    try:
        checkpoint.check_files(folder, lake)
    except CheckpointError as error:
        raise SpecError(path, str(error)) from error


def claim_checkpoints(pipeline: Pipeline) -> None:
    """Claim all local checkpoints for these queries, before any query starts."""
    for query in queries(pipeline):
        if (folder := checkpoint.local(query.checkpoint)) is not None:
            checkpoint.claim(folder, query.identity())


def _check_writable(folder: Path, path: str) -> None:
    """Check that a folder is writable, or can be created below its nearest existing parent."""
    there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not there.is_dir():
        raise SpecError(path, f"{there} is not a folder")
    try:
        see_writable(there)
    except OSError as error:
        raise SpecError(path, f"{there} cannot be written to: {error.strerror}") from error


def see_writable(folder: Path) -> None:
    """Check that files can be created in a folder; permissions do not show a read-only file system. OSError."""
    with tempfile.TemporaryFile(dir=folder):
        pass
