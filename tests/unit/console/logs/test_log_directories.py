"""Directories of partitions in `log.dirs`."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.errors import NotFound
from console.logs.log_directories import LogDirectories

UNIQUE = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def logs(tmp_path: Path) -> LogDirectories:
    """Two disks, and one that has failed."""
    for name in ("one/orders-10", "one/orders-2", "one/__cluster_metadata-0", f"one/orders-3.{UNIQUE}-delete"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("two/orders-1", f"two/orders-2.{UNIQUE}-future", "two/orders-eu-0", "two/lost+found"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "one/orders-2" / f"{0:020d}.log").write_bytes(b"12345")
    (tmp_path / "one/orders-2" / "leader-epoch-checkpoint").write_bytes(b"678")
    (tmp_path / "one/meta.properties").write_text("")
    return LogDirectories([str(tmp_path / name) for name in ("one", "two", "gone")])


def test_all_directories_are_listed(logs: LogDirectories) -> None:
    """By disk, topic and number, including those that are being moved or deleted."""
    assert [(each.directory, each.folder.name) for each in logs.folders()] == [
        (0, "orders-2"),
        (0, "orders-10"),
        (0, f"orders-3.{UNIQUE}-delete"),
        (1, "orders-1"),
        (1, f"orders-2.{UNIQUE}-future"),
        (1, "orders-eu-0"),
    ]


def test_directories_of_a_topic_are_listed(logs: LogDirectories) -> None:
    """Those in use, without topics whose names begin with its name."""
    assert [each.folder.partition for each in logs.folders("orders")] == [2, 10, 1]
    assert [each.folder.name for each in logs.folders("orders-eu")] == ["orders-eu-0"]


def test_directory_has_segments_and_other_files(logs: LogDirectories) -> None:
    folder = logs.folder(0, "orders-2")
    assert (folder.topic, folder.partition, folder.size_bytes) == ("orders", 2, 8)
    assert folder.segment(0).size_bytes == 5
    assert [each.name for each in folder.others] == ["leader-epoch-checkpoint"]
    with pytest.raises(NotFound):
        folder.segment(7)


@pytest.mark.parametrize(
    ("directory", "name"),
    [
        (2, "orders-1"),
        (3, "orders-1"),
        (0, "orders-1"),
        (0, "lost+found"),
        (0, "meta.properties"),
        (0, "../two/orders-1"),
        (0, "__cluster_metadata-0"),
        (0, f"__cluster_metadata-0.{UNIQUE}-delete"),
        (0, "a\0-0"),
        (0, "a" * 300 + "-0"),
        (0, ""),
    ],
)
def test_other_directories_are_not_read(logs: LogDirectories, directory: int, name: str) -> None:
    with pytest.raises(NotFound):
        logs.folder(directory, name)
