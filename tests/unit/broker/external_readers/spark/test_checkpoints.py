"""Which queries there are below the configured paths, and what becomes of those that are away or damaged."""

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
    """A folder of three checkpoints, and of what is none."""
    for name in NAMES:
        shutil.copytree(RECORDED / name, tmp_path / "state" / name)
    (tmp_path / "state" / "lake" / "metadata").mkdir(parents=True)
    (tmp_path / "state" / "pybroker.json").write_text("{}")
    return tmp_path / "state"


def test_folder_is_as_good_as_its_checkpoints(folder: Path) -> None:
    """The lowest offset of each partition counts, and whose it is."""
    one_by_one = Checkpoints([str(folder / name) for name in NAMES]).look()
    found = Checkpoints([str(folder)]).look()

    assert found == one_by_one
    assert [query.name for query in found.queries] == NAMES
    assert found.positions == {("clicks", 0): 4, ("orders", 0): 5, ("orders", 1): 5}
    assert set(found.behind.values()) == {"two-sources"}
    assert (found.is_known, found.problems) == (True, {})


def test_first_batch_of_which_nothing_is_written_counts_as_unread(tmp_path: Path) -> None:
    """From the first offset on, in the partitions that it is planned for."""
    found = Checkpoints([str(RECORDED / "first-batch-without-a-jar")]).look()

    assert found.positions == {("orders", 0): 0, ("orders", 1): 0}
    assert found.is_known
    assert not Checkpoints([str(RECORDED / "of-files")]).look().is_known


def test_names_that_stand_twice_are_told_apart(folder: Path, tmp_path: Path) -> None:
    """By their paths."""
    shutil.copytree(RECORDED / "archive", tmp_path / "other" / "archive")
    found = Checkpoints([str(folder), str(tmp_path / "other")]).look()

    assert {query.name for query in found.queries} == {
        *(str(folder / "archive"), str(tmp_path / "other" / "archive"), "two-sources", "without-a-jar"),
    }


def test_name_that_is_no_text_is_shown_escaped(tmp_path: Path) -> None:
    """Metrics are UTF-8."""
    shutil.copytree(RECORDED / "archive", tmp_path / "state" / os.fsdecode(b"bad\xff"))
    (query,) = Checkpoints([str(tmp_path / "state")]).look().queries
    assert query.name == "bad\\udcff"


def test_volume_that_is_not_mounted_is_not_read_as_no_queries(tmp_path: Path) -> None:
    """An empty folder: what was known stays, and after a start nobody knows anything."""
    found = Checkpoints([str(tmp_path)]).look()
    assert (found.is_known, list(found.problems)) == (False, [str(tmp_path)])


def test_query_that_can_be_read_no_more_stays_where_it_was(folder: Path) -> None:
    """And is a problem; after a start nobody knows what it reads."""
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


def test_query_that_is_removed_is_forgotten(folder: Path) -> None:
    """But a path of the configuration that is away is a problem, and all below it stay where they were."""
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


def test_folder_with_too_many_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than read in part."""
    monkeypatch.setattr(checkpoints, "_MOST_CHECKPOINTS", 2)
    found = Checkpoints([str(folder)]).look()

    assert found.problems == {str(folder): "there are more than 2 checkpoints"}
    assert not found.is_known
