"""Files that wait for their removal, by due time."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.log.directory import LogDirectory
from storage.log.removals import Removals
from tests.support.disk_doubles.failing_fs import FailingFileSystem


def test_due_removals_are_in_order_of_time(tmp_path: Path) -> None:
    """In any order of insertion, and each only once."""
    paths = [tmp_path / name for name in ("late", "early", "never")]
    for path in paths:
        path.write_bytes(b"x")
    removals, directory = Removals(), LogDirectory(str(tmp_path))
    for due_ms, path in zip((20, 10, 30), paths, strict=True):
        removals.add(due_ms, directory, [str(path)])
    assert removals.tasks(9) == []
    for now_ms, left in ((10, ["late", "never"]), (29, ["never"])):
        [task] = removals.tasks(now_ms)
        task.run()
        task.apply()
        assert sorted(path.name for path in tmp_path.iterdir()) == left
        assert removals.tasks(now_ms) == []


def test_failed_directory_keeps_its_files(tmp_path: Path) -> None:
    """Rule H3."""
    removals, directory = Removals(), LogDirectory(str(tmp_path))
    removals.add(10, directory, [f"{tmp_path}/file"])
    directory.fail("broken")
    assert removals.tasks(10) == []


@pytest.mark.parametrize("fails", [True, False])
def test_renaming_of_deleted_partitions_is_flushed_first(fails: bool, tmp_path: Path) -> None:
    """P6: with its old name and without its topic id, a directory would be used for a new topic."""
    fs = FailingFileSystem(int(fails))
    removals, directory = Removals(), LogDirectory(str(tmp_path), fs)
    paths = [tmp_path / f"t-{number}.{number:032d}-delete" for number in range(2)]
    for path in paths:
        path.mkdir()
        (path / "partition.metadata").write_bytes(b"x")
        removals.add(10, directory, [str(path)], partitions=True)
    [task] = removals.tasks(10)
    task.run()
    task.apply()
    assert fs.calls[0] == "sync_path"
    assert fs.calls.count("sync_path") == 1
    assert directory.is_online is not fails
    assert [(path / "partition.metadata").exists() for path in paths] == [fails, fails]
