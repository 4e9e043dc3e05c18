"""The newest timestamps in a log directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.data.log_times import Newest, newest_times


def partition(directory: Path, name: str, *timestamps: int, room: int = 0, written_s: int = 1_700_000_000) -> None:
    """Return a partition with one segment, whose time index has these entries and free space, as an active one."""
    folder = directory / name
    folder.mkdir(parents=True)
    (folder / f"{0:020d}.log").touch()
    os.utime(folder / f"{0:020d}.log", (written_s, written_s))
    entries = b"".join(each.to_bytes(8, "big") + (7).to_bytes(4, "big") for each in timestamps)
    (folder / f"{0:020d}.timeindex").write_bytes(entries + bytes(12 * room))


@pytest.mark.parametrize("room", [0, 1, 5, 1_000])
@pytest.mark.parametrize("count", [0, 1, 2, 13])
def test_last_entry_of_a_time_index(tmp_path: Path, count: int, room: int) -> None:
    """With and without free space behind it."""
    partition(tmp_path, "orders-0", *range(1_000, 1_000 + count), room=room)
    newest = newest_times(str(tmp_path))
    assert (newest.record_ms, newest.record) == ((999 + count, "orders-0") if count else (0, ""))


def test_newest_time_of_all_partitions(tmp_path: Path) -> None:
    """Deleted partitions and other directories do not count."""
    partition(tmp_path, "old-0", 5)
    partition(tmp_path, "read-3", 9_000, written_s=1_800_000_000)
    partition(tmp_path, "sent-12", 9_999)
    partition(tmp_path, f"gone-0.{'a' * 32}-delete", 99_999, written_s=1_900_000_000)
    (tmp_path / "meta.properties").touch()
    assert newest_times(str(tmp_path)) == Newest(1_800_000_000_000, "read-3", 9_999, "sent-12")


def test_empty_and_missing_directories(tmp_path: Path) -> None:
    assert newest_times(str(tmp_path)) == Newest()
    with pytest.raises(FileNotFoundError):
        newest_times(str(tmp_path / "none"))
