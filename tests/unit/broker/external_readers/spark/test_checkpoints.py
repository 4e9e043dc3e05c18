"""Queries below the configured paths, some of them missing or damaged."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from broker.external_readers.spark import checkpoints
from broker.external_readers.spark.checkpoints import Checkpoints

RECORDED = Path(__file__).parents[4] / "data" / "spark"
NAMES = ["archive", "two-sources", "without-a-jar"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with three checkpoints and other files."""
    for name in NAMES:
        shutil.copytree(RECORDED / name, tmp_path / "state" / name)
    (tmp_path / "state" / "lake" / "metadata").mkdir(parents=True)
    (tmp_path / "state" / "pybroker.json").write_text("{}")
    return tmp_path / "state"


def test_directory_of_checkpoints_counts_as_all_of_them(folder: Path) -> None:
    """The lowest offset of each partition counts, with the name of its query."""
    one_by_one = Checkpoints([str(folder / name) for name in NAMES]).look()
    found = Checkpoints([str(folder)]).look()

    assert found == one_by_one
    assert [query.name for query in found.queries] == NAMES
    assert found.positions == {("clicks", 0): 4, ("orders", 0): 5, ("orders", 1): 5}
    assert set(found.behind.values()) == {"two-sources"}
    assert (found.is_known, found.problems) == (True, {})


def test_first_batch_without_records_counts_as_unread(tmp_path: Path) -> None:
    """From the first offset of its planned partitions on."""
    found = Checkpoints([str(RECORDED / "first-batch-without-a-jar")]).look()

    assert found.positions == {("orders", 0): 0, ("orders", 1): 0}
    assert found.is_known
    assert not Checkpoints([str(RECORDED / "of-files")]).look().is_known


def test_equal_names_are_replaced_by_paths(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(RECORDED / "archive", tmp_path / "other" / "archive")
    found = Checkpoints([str(folder), str(tmp_path / "other")]).look()

    assert {query.name for query in found.queries} == {
        *(str(folder / "archive"), str(tmp_path / "other" / "archive"), "two-sources", "without-a-jar"),
    }


def test_name_that_is_not_utf8_is_escaped(tmp_path: Path) -> None:
    """Metrics are UTF-8."""
    shutil.copytree(RECORDED / "archive", tmp_path / "state" / os.fsdecode(b"bad\xff"))
    (query,) = Checkpoints([str(tmp_path / "state")]).look().queries
    assert query.name == "bad\\udcff"


def test_unmounted_volume_does_not_remove_queries(tmp_path: Path) -> None:
    """The directory is empty, so known positions stay. After a start, positions are unknown."""
    found = Checkpoints([str(tmp_path)]).look()
    assert (found.is_known, list(found.problems)) == (False, [str(tmp_path)])


def test_unreadable_query_keeps_its_position(folder: Path) -> None:
    """It is reported as a problem. After a start, its topics are unknown."""
    running = Checkpoints([str(folder)])
    before = running.look()
    for number in "01":
        (folder / "two-sources" / "offsets" / number).write_text("v1\nbroken\nbroken")
    (folder / "two-sources" / "commits" / "1").write_text("v1")
    after = running.look()

    assert after.positions == before.positions
    assert after.is_known
    assert list(after.problems) == [str(folder / "two-sources")]
    started = Checkpoints([str(folder)]).look()
    assert not started.is_known
    assert started.positions == {("clicks", 0): 7, ("orders", 0): 9, ("orders", 1): 8}


def test_removed_query_is_forgotten(folder: Path) -> None:
    """If a configured path is missing, it is a problem, and queries below it keep their positions."""
    running = Checkpoints([str(folder)])
    running.look()
    shutil.rmtree(folder / "two-sources")
    assert [query.name for query in running.look().queries] == ["archive", "without-a-jar"]

    folder.rename(folder.with_name("away"))
    away = running.look()
    assert [query.name for query in away.queries] == ["archive", "without-a-jar"]
    assert away.problems == {str(folder): f"{folder}: No such file or directory"}
    assert away.is_known
    assert not Checkpoints([str(folder)]).look().is_known


def test_directory_with_too_many_checkpoints_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than read in part."""
    monkeypatch.setattr(checkpoints, "_MOST_CHECKPOINTS", 2)
    found = Checkpoints([str(folder)]).look()

    assert found.problems == {str(folder): "there are more than 2 checkpoints"}
    assert not found.is_known
