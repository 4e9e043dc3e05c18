"""Copies of a data directory."""

from __future__ import annotations

from pathlib import Path

from pybroker.testing.forks import fork_directory


def test_fork_shares_closed_files_and_copies_others(tmp_path: Path) -> None:
    """Later appends of one broker do not reach the other. The lock file is not copied."""
    partition = tmp_path / "data" / "orders-0"
    partition.mkdir(parents=True)
    names = [f"{offset:020d}{suffix}" for offset in (0, 7, 20) for suffix in (".log", ".index")]
    for name in (*names, "leader-epoch-checkpoint"):
        (partition / name).write_text(name)
    (tmp_path / "data" / "meta.properties").write_text("version=1")
    (tmp_path / "data" / ".lock").touch()

    fork_directory(tmp_path / "data", tmp_path / "copy")

    copy = tmp_path / "copy" / "orders-0"
    assert sorted([*names, "leader-epoch-checkpoint"]) == sorted(each.name for each in copy.iterdir())
    assert all(each.read_text() == each.name for each in copy.iterdir())
    shared = {each.name for each in copy.iterdir() if each.samefile(partition / each.name)}
    assert {f"{0:020d}.log", f"{7:020d}.log"} == shared
    assert sorted(each.name for each in (tmp_path / "copy").iterdir()) == ["meta.properties", "orders-0"]
