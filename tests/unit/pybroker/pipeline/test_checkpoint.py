"""Checkpoints: progress of a query, and which query they belong to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pybroker.pipeline import checkpoint
from pybroker.pipeline.checkpoint import CheckpointError, Progress

IDENTITY = {"query": "q", "source": "s ['t']", "sink": "parquet rows"}


def batch(folder: Path, number: int, *sources: object, done: bool = True, watermark_ms: int = 0) -> None:
    """Write Spark's files of a batch; a source has offsets, or None if it was not read."""
    lines = ["v1", json.dumps({"batchWatermarkMs": watermark_ms, "batchTimestampMs": 1, "conf": {}})]
    lines += ["-" if source is None else json.dumps(source) for source in sources]
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "offsets" / str(number)).write_text("\n".join(lines))
    (folder / "offsets" / f".{number}.crc").write_bytes(b"crc")
    if done:
        (folder / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_new_checkpoint_has_no_positions(tmp_path: Path) -> None:
    """A missing directory, and one whose first batch is not completed."""
    assert checkpoint.progress(tmp_path / "q") == Progress()

    batch(tmp_path, 0, {"t": {"0": 5}}, done=False)
    assert checkpoint.progress(tmp_path) == Progress(running=0)


def test_last_completed_batch_counts(tmp_path: Path) -> None:
    """With the offsets of all sources. The batch after it is running."""
    batch(tmp_path, 8, {"t": {"0": 5, "1": 6}})
    batch(tmp_path, 9, {"t": {"0": 10, "1": 6}}, None, {"u": {"0": 1}}, watermark_ms=7)
    batch(tmp_path, 10, {"t": {"0": 11, "1": 6}}, done=False)

    assert checkpoint.progress(tmp_path) == Progress(9, {"t": {0: 10, 1: 6}, "u": {0: 1}}, 7, running=10)


def test_slower_of_two_sources_counts(tmp_path: Path) -> None:
    batch(tmp_path, 0, {"t": {"0": 5, "1": 9}}, {"t": {"0": 7, "1": 8, "2": 1}})

    assert checkpoint.progress(tmp_path).offsets == {"t": {0: 5, 1: 8, 2: 1}}


@pytest.mark.parametrize("content", ["v7\n{}", "", "v1\n{\n", 'v1\n{}\n["no offsets"]'])
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    """With the file's name."""
    batch(tmp_path, 0, {"t": {"0": 1}})
    (tmp_path / "offsets" / "0").write_text(content)

    with pytest.raises(CheckpointError, match=r"offsets/0"):
        checkpoint.progress(tmp_path)


def test_checkpoint_belongs_to_one_query(tmp_path: Path) -> None:
    """Another query is refused with the differences."""
    folder = tmp_path / "root" / "q"
    checkpoint.claim(folder, IDENTITY)
    checkpoint.claim(folder, IDENTITY)

    with pytest.raises(CheckpointError, match=r"sink was 'parquet rows', is 'kafka t'"):
        checkpoint.check(folder, IDENTITY | {"sink": "kafka t"})
    assert json.loads((folder / "pybroker.json").read_text()) == IDENTITY


def test_checkpoint_of_another_program_is_refused(tmp_path: Path) -> None:
    """It has batches but not our file, or that file is damaged."""
    batch(tmp_path, 0, {"t": {"0": 1}})
    with pytest.raises(CheckpointError, match="was made by something else"):
        checkpoint.claim(tmp_path, IDENTITY)

    for damaged in ("{", "[1]"):
        (tmp_path / "pybroker.json").write_text(damaged)
        with pytest.raises(CheckpointError, match="is damaged"):
            checkpoint.claim(tmp_path, IDENTITY)


def test_files_of_another_checkpoint_are_found(tmp_path: Path) -> None:
    """Their batches are listed but were never planned here. Files of an uncommitted batch are ours."""
    folder, lake = tmp_path / "state", tmp_path / "lake"
    checkpoint.check_files(folder, lake)
    (lake / "_spark_metadata").mkdir(parents=True)
    checkpoint.check_files(folder, lake)
    for name in ("7", "8", "9.compact", "10", ".10.crc"):
        (lake / "_spark_metadata" / name).write_text("v1")

    with pytest.raises(CheckpointError, match=r"lake has files of another or a removed checkpoint, up to batch 10"):
        checkpoint.check_files(folder, lake)
    batch(folder, 9, {"t": {"0": 5}})
    with pytest.raises(CheckpointError, match=r"up to batch 10"):
        checkpoint.check_files(folder, lake)
    batch(folder, 10, {"t": {"0": 5}}, done=False)
    checkpoint.check_files(folder, lake)


def test_only_local_directories_are_read() -> None:
    """A path, or a file: URL. Others are left to Spark."""
    assert checkpoint.local("/a/b") == checkpoint.local("file:///a/b") == Path("/a/b")
    assert checkpoint.local("file:/a%20b") == Path("/a b")
    assert checkpoint.local("s3a://bucket/b") is None
