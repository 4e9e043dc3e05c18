"""The archives of a broker as they are looked at again and again, some of them away or damaged."""

from __future__ import annotations

from pathlib import Path

from broker.external_readers.archives.manifests import Archive, Manifests
from tests.support.archives import put_manifest

ENDS = {("orders", 0): 10}


def test_archives_are_called_as_their_directories(tmp_path: Path) -> None:
    """By the whole path where two are called the same; one that is named twice is one."""
    paths = [tmp_path / "a" / "lake", tmp_path / "b" / "lake", tmp_path / "other"]
    for path in paths:
        put_manifest(path, ENDS)
    found = Manifests([*map(str, paths), f"{tmp_path}/a/../other/"]).look()

    assert found.problems == {}
    names = [str(paths[0]), str(paths[1]), "other"]
    assert found.archives == [Archive(name, str(path), ENDS) for name, path in zip(names, paths, strict=True)]


def test_archive_that_is_not_there_is_a_problem_and_nothing_else(tmp_path: Path) -> None:
    """Until it is made."""
    manifests = Manifests([str(tmp_path / "lake")])
    found = manifests.look()
    assert found.archives == []
    missing = f"{tmp_path}/lake/_pybroker/manifest.json: No such file or directory"
    assert found.problems == {str(tmp_path / "lake"): missing}

    put_manifest(tmp_path / "lake", ENDS)
    found = manifests.look()
    assert ([each.ends for each in found.archives], found.problems) == ([ENDS], {})


def test_archive_that_can_be_read_no_more_stays_where_it_was(tmp_path: Path) -> None:
    """Damaged, or on a volume that is away; and goes on when it is back. After a start nothing is known of it."""
    lake, away = tmp_path / "lake", tmp_path / "away"
    path = put_manifest(lake, ENDS)
    manifests = Manifests([str(lake)])
    before = manifests.look().archives
    path.write_text("nonsense")
    damaged = manifests.look()
    lake.rename(away)
    gone = manifests.look()

    assert before == damaged.archives == gone.archives
    assert list(damaged.problems) == list(gone.problems) == [str(lake)]
    assert Manifests([str(lake)]).look().archives == []
    away.rename(lake)
    put_manifest(lake, {("orders", 0): 12})
    found = manifests.look()
    assert ([each.ends for each in found.archives], found.problems) == ([{("orders", 0): 12}], {})
