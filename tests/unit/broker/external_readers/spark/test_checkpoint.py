"""Checkpoints as Spark 4.2 has written them (tests/data/spark), and files that are none."""

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
    """A copy of a checkpoint with two batches that are done, and a third that is not."""
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
    """Where the newest batch ended that is done; else where the sources began, if that is written anywhere."""
    found = read_checkpoint(str(RECORDED / name))

    assert is_checkpoint(str(RECORDED / name))
    assert (found.committed_ms is not None) == (progress.batch is not None)
    assert found.begun_ms is not None
    assert replace(found, committed_ms=None, begun_ms=None) == progress


def test_what_has_not_changed_is_not_read_again(archive: Path) -> None:
    """The last batch's number tells; a new one is read."""
    before = read_checkpoint(str(archive))
    (archive / "offsets" / "1").write_text("no more read")
    assert read_checkpoint(str(archive), before) is before

    os.utime(archive / "commits" / "1", (1, 1))  # as by a query that was begun anew
    with pytest.raises(UnreadableFile):
        read_checkpoint(str(archive), before)

    (archive / "commits" / "2").write_text("v1\n{}")
    assert read_checkpoint(str(archive), before).positions[("orders", 0)] == 11


def test_query_follows_topics_of_which_it_knows_the_first_partitions(archive: Path) -> None:
    """As one that subscribes does; others were assigned. A pipeline says so itself."""
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


def test_first_batch_follows_what_it_is_planned_for() -> None:
    """Where no batch is done yet."""
    assert read_checkpoint(str(RECORDED / "first-batch")).followed() == {"orders": 2}
    assert read_checkpoint(str(RECORDED / "first-batch-without-a-jar")).followed() == {"orders": 2}


def test_other_sources_say_nothing_of_topics(archive: Path) -> None:
    """Files, rates and tables beside topics; a source that was not read yet stands where it began."""
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
        (b"v1", "ends before"),
        (b'v1\n{}\n{"orders":{"0":', "no JSON"),
        (b"v1\n{}\n" + b"[" * 100_000, "no JSON"),
        (b'v1\n{}\n{"orders":{"0":-2}}', "no offset"),
        (b'v1\n{}\n{"orders":{"0":9223372036854775808}}', "no offset"),
        (b"v1\n\xff\xff", "no text"),
        (b"v1\n{}\n" + b" " * (4 << 20), "more than"),
    ],
)
def test_damaged_offsets_are_told_in_a_line(archive: Path, text: bytes, problem: str) -> None:
    """What is wrong, and in which file or text."""
    (archive / "offsets" / "1").write_bytes(text)

    with pytest.raises(UnreadableFile, match=problem) as refused:
        read_checkpoint(str(archive))
    assert "\n" not in str(refused.value)


def test_pipe_in_place_of_a_file_is_not_waited_for(archive: Path) -> None:
    """Nor is a directory read."""
    (archive / "offsets" / "1").unlink()
    os.mkfifo(archive / "offsets" / "1")
    with pytest.raises(UnreadableFile, match="is not a regular file"):
        read_checkpoint(str(archive))

    (archive / "offsets" / "1").unlink()
    (archive / "offsets" / "1").mkdir()
    with pytest.raises((UnreadableFile, OSError)):
        read_checkpoint(str(archive))


def test_batch_whose_offsets_have_gone_is_an_error(archive: Path) -> None:
    """As when somebody cleans up."""
    (archive / "offsets" / "1").unlink()

    with pytest.raises(FileNotFoundError):
        read_checkpoint(str(archive))
