"""The archives of a broker in repeated checks, some of them missing or damaged."""

from __future__ import annotations

from pathlib import Path

from broker.external_readers.archives.manifests import Archive, Manifests
from tests.support.archives import put_manifest

ENDS = {("orders", 0): 10}


def test_archives_are_named_by_their_directories(tmp_path: Path) -> None:
    """By the whole path if two names are equal. An archive that is listed twice counts once."""
    paths = [tmp_path / "a" / "lake", tmp_path / "b" / "lake", tmp_path / "other"]
    for path in paths:
        put_manifest(path, ENDS)
    found = Manifests([*map(str, paths), f"{tmp_path}/a/../other/"]).look()

    assert found.problems == {}
    names = [str(paths[0]), str(paths[1]), "other"]
    assert found.archives == [Archive(name, str(path), ENDS) for name, path in zip(names, paths, strict=True)]


def test_missing_archive_is_a_problem(tmp_path: Path) -> None:
    """Until it is created."""
    manifests = Manifests([str(tmp_path / "lake")])
    found = manifests.look()
    assert found.archives == []
    missing = f"{tmp_path}/lake/_pybroker/manifest.json: No such file or directory"
    assert found.problems == {str(tmp_path / "lake"): missing}

    put_manifest(tmp_path / "lake", ENDS)
    found = manifests.look()
    assert ([each.ends for each in found.archives], found.problems) == ([ENDS], {})


def test_unreadable_archive_keeps_its_position(tmp_path: Path) -> None:
    """If it is damaged or its volume is away, until it is readable again. After a start its position is unknown."""
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
