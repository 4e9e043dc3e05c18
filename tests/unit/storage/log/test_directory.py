"""Locking several log directories: all of them, or none and no change."""

import os
from pathlib import Path

import pytest

from storage.errors import DirectoryRefused
from storage.fs import LOCAL
from storage.log.directory import LogDirectory, lock_all


def test_all_directories_are_created_and_locked(tmp_path: Path) -> None:
    """Parent directories are created too."""
    directories = [LogDirectory(str(tmp_path / name)) for name in ("a", "b/c")]
    lock_all(directories)
    assert (tmp_path / "b" / "c" / ".lock").exists()
    for directory in directories:
        directory.unlock()


def test_unusable_directory_leaves_the_others_unchanged(tmp_path: Path) -> None:
    """All directories are checked before one is created."""
    (tmp_path / "file").touch()
    with pytest.raises(DirectoryRefused, match="cannot be used: Not a directory"):
        lock_all([LogDirectory(str(tmp_path / "new")), LogDirectory(str(tmp_path / "file"))])
    assert os.listdir(tmp_path) == ["file"]


def test_existing_locks_are_taken_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of another broker is found before a directory is created."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / ".lock").touch()
    monkeypatch.setattr(LOCAL, "lock", lambda path: None, raising=False)
    with pytest.raises(DirectoryRefused, match="in use by another broker"):
        lock_all([LogDirectory(str(tmp_path / "new")), LogDirectory(str(tmp_path / "taken"))])
    assert os.listdir(tmp_path) == ["taken"]


@pytest.mark.parametrize("second", ["a", "link", "b/../a"])
def test_one_directory_with_two_names_is_rejected(second: str, tmp_path: Path) -> None:
    """POSIX locks do not exclude the same process."""
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(DirectoryRefused, match="is the same directory as"):
        lock_all([LogDirectory(f"{tmp_path}/a"), LogDirectory(f"{tmp_path}/{second}")])
    assert os.listdir(tmp_path) == ["link"]


def test_read_only_directory_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permission bits are checked."""
    monkeypatch.setattr(os, "access", lambda *arguments, **options: False)
    with pytest.raises(DirectoryRefused, match="cannot be used: Permission denied"):
        LogDirectory(str(tmp_path)).check_usable()
    monkeypatch.undo()
    flags = os.statvfs(tmp_path)
    read_only = os.statvfs_result([*flags[:8], flags.f_flag | os.ST_RDONLY, *flags[9:]])
    monkeypatch.setattr(os, "statvfs", lambda path: read_only)
    with pytest.raises(DirectoryRefused, match="cannot be used: Read-only file system"):
        LogDirectory(str(tmp_path)).check_usable()
