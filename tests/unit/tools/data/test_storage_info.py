"""`kafka-storage info`: the state of log directories, in the words of Apache Kafka's tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.data.storage_info import describe, main


def formatted(path: Path, cluster_id: str = "c", node_id: int = 1) -> str:
    path.mkdir()
    (path / "meta.properties").write_text(f"version=1\nnode.id={node_id}\ncluster.id={cluster_id}\n")
    return str(path)


def test_directory_without_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0."""
    directory = formatted(tmp_path / "a")
    (tmp_path / "server.properties").write_text(f"log.dirs={directory}\n")

    assert main(["-c", str(tmp_path / "server.properties")]) == 0
    assert capsys.readouterr().out == (
        f"Found log directory:\n  {directory}\n\nFound metadata: {{cluster.id=c, node.id=1, version=1}}\n\n"
    )


def test_problems_of_several_directories(tmp_path: Path) -> None:
    """A line each, in the directories' order."""
    a, b, c = formatted(tmp_path / "a"), formatted(tmp_path / "b", "other"), formatted(tmp_path / "c", node_id=2)
    (tmp_path / "d").mkdir()
    (tmp_path / "e").write_text("")
    given = [str(tmp_path / name) for name in "fedcba"]
    (tmp_path / "c2").mkdir()
    (tmp_path / "c2" / "meta.properties").write_text("version=9\n")

    lines, is_in_order = describe([*given, str(tmp_path / "c2")])

    assert not is_in_order
    assert lines[:7] == [
        "Found log directories:",
        *(f"  {each}" for each in (a, b, c, str(tmp_path / "c2"), str(tmp_path / "d"))),
        "",
    ]
    problems = lines[lines.index("Found problems:") + 1 : -1]
    assert problems[:2] == [
        "  Mismatched cluster IDs between storage directories.",
        "  Mismatched node IDs between storage directories.",
    ]
    assert problems[2].startswith(f"  Error loading {tmp_path}/c2/meta.properties: ")
    assert problems[3:] == [
        f"  {tmp_path}/d is not formatted.",
        f"  {tmp_path}/e is not a directory",
        f"  {tmp_path}/f does not exist",
    ]


def test_bad_configuration_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing file, or one that is not a broker's."""
    (tmp_path / "server.properties").write_text("num.partitions=none\n")

    assert main(["-c", str(tmp_path / "missing")]) == 1
    assert main(["-c", str(tmp_path / "server.properties")]) == 1
    printed = capsys.readouterr().err.splitlines()
    assert printed[0].endswith("missing: No such file or directory")
    assert printed[1].startswith(f"{tmp_path}/server.properties:1: num.partitions=none: ")
