"""Checkpoints of Spark 4.2 (tests/data/spark), and files that are no checkpoints."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from broker.external_readers.spark.checkpoint import QueryProgress, is_checkpoint, read_checkpoint
from runtime.foreign_files import UnreadableFile

RECORDED = Path(__file__).parents[4] / "data" / "spark"
ORDERS = {("orders", 0): 5, ("orders", 1): 5}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A copy of a checkpoint with two completed batches and a third that is not."""
    return Path(shutil.copytree(RECORDED / "archive", tmp_path / "archive"))


@pytest.mark.parametrize(
    ("name", "progress"),
    [
        ("archive", QueryProgress(1, 2, {("clicks", 0): 7, ("orders", 0): 9, ("orders", 1): 8})),
        ("without-a-jar", QueryProgress(1, None, {("orders", 0): 9, ("orders", 1): 8})),
        ("two-sources", QueryProgress(0, None, {**ORDERS, ("clicks", 0): 4})),
        ("first-batch", QueryProgress(None, 0, {("orders", 0): 0, ("orders", 1): 0})),
        ("first-batch-without-a-jar", QueryProgress(None, 0, {}, frozenset(ORDERS))),
        ("of-files", QueryProgress(is_known=False)),
    ],
)
def test_recorded_checkpoints_are_read(name: str, progress: QueryProgress) -> None:
    """Positions are the end of the newest completed batch, else the recorded start of the sources."""
    found = read_checkpoint(str(RECORDED / name))

    assert is_checkpoint(str(RECORDED / name))
    assert (found.committed_ms is not None) == (progress.batch is not None)
    assert found.begun_ms is not None
    assert replace(found, committed_ms=None, begun_ms=None) == progress


def test_unchanged_checkpoint_is_not_read_again(archive: Path) -> None:
    """The number of the last batch shows a change."""
    before = read_checkpoint(str(archive))
    (archive / "offsets" / "1").write_text("no more read")
    assert read_checkpoint(str(archive), before) is before

    os.utime(archive / "commits" / "1", (1, 1))  # as if the query had been restarted from the beginning
    with pytest.raises(UnreadableFile):
        read_checkpoint(str(archive), before)

    (archive / "commits" / "2").write_text("v1\n{}")
    assert read_checkpoint(str(archive), before).positions[("orders", 0)] == 11


def test_query_follows_topics_from_partition_0_on(archive: Path) -> None:
    """Partitions that start elsewhere were assigned. A pipeline records which of both applies."""
    os.utime(archive / "metadata", (1_000, 1_000))
    before = read_checkpoint(str(archive))
    assert (before.followed(), before.begun_ms) == ({"orders": 2, "clicks": 1}, 1_000_000)

    (archive / "offsets" / "1").write_text('v1\n{}\n{"orders":{"0":1,"2":1},"clicks":{"1":4},"pages":{"1":1,"0":1}}')
    assert read_checkpoint(str(archive)).followed() == {"pages": 2}
    (archive / "pybroker.json").write_text(json.dumps({"source": "access ['pages']"}))
    assert read_checkpoint(str(archive)).followed() == {"pages": 2}
    (archive / "pybroker.json").write_text(json.dumps({"source": "access {'pages': [0, 1]}"}))
    assert read_checkpoint(str(archive)).followed() == {}
    (archive / "pybroker.json").write_text("{")
    (archive / "metadata").unlink()
    assert read_checkpoint(str(archive)).begun_ms == 0


def test_first_batch_follows_its_planned_partitions() -> None:
    """While no batch is completed."""
    assert read_checkpoint(str(RECORDED / "first-batch")).followed() == {"orders": 2}
    assert read_checkpoint(str(RECORDED / "first-batch-without-a-jar")).followed() == {"orders": 2}


def test_other_sources_have_no_topics(archive: Path) -> None:
    """Files, rates and tables beside topics. A source without a batch is at its start."""
    lines = ["v1", "{}", '{"logOffset":3}', "17", '{"sourceVersion":1,"reservoirId":"x"}', '{"a":{"x":1}}', "-"]
    (archive / "offsets" / "1").write_text("\n".join(lines))
    (archive / "sources" / "4").mkdir()
    (archive / "sources" / "4" / "0").write_bytes(b'\0v1\n{"late":{"0":12}}')

    assert read_checkpoint(str(archive)).positions == {("late", 0): 12}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "version ''"),
        (b"v2\n{}\n{}", "version 'v2'"),
        (b"v1", "no version line"),
        (b'v1\n{}\n{"orders":{"0":', "is not JSON"),
        (b"v1\n{}\n" + b"[" * 100_000, "is not JSON"),
        (b'v1\n{}\n{"orders":{"0":-2}}', "is not an offset"),
        (b'v1\n{}\n{"orders":{"0":9223372036854775808}}', "is not an offset"),
        (b"v1\n\xff\xff", "is not text"),
        (b"v1\n{}\n" + b" " * (4 << 20), "more than"),
    ],
)
def test_damaged_offsets_are_one_line(archive: Path, text: bytes, problem: str) -> None:
    """With the problem and the file."""
    (archive / "offsets" / "1").write_bytes(text)

    with pytest.raises(UnreadableFile, match=problem) as refused:
        read_checkpoint(str(archive))
    assert "\n" not in str(refused.value)


def test_pipes_and_directories_are_not_read(archive: Path) -> None:
    (archive / "offsets" / "1").unlink()
    os.mkfifo(archive / "offsets" / "1")
    with pytest.raises(UnreadableFile, match="is not a regular file"):
        read_checkpoint(str(archive))

    (archive / "offsets" / "1").unlink()
    (archive / "offsets" / "1").mkdir()
    with pytest.raises((UnreadableFile, OSError)):
        read_checkpoint(str(archive))


def test_batch_without_its_offsets_is_an_error(archive: Path) -> None:
    """Somebody may have deleted old files."""
    (archive / "offsets" / "1").unlink()

    with pytest.raises(FileNotFoundError):
        read_checkpoint(str(archive))
