"""Files of other programs: read as a whole or not at all, without blocking."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from runtime.foreign_files import (
    UnreadableFile,
    display_names,
    read_whole,
    reason,
)


def test_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    """One more byte is too much."""
    path = tmp_path / "file"
    path.write_bytes(b"12345")

    assert read_whole(str(path), 5) == b"12345"
    with pytest.raises(UnreadableFile, match="has more than 4 bytes"):
        read_whole(str(path), 4)


def test_pipe_does_not_block(tmp_path: Path) -> None:
    """Opening a pipe without a writer would block."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(UnreadableFile, match="is not a regular file"):
        read_whole(str(tmp_path / "pipe"), 5)


def test_reason_names_the_file() -> None:
    """In one line, as far as the system knows it."""
    assert reason(FileNotFoundError(errno.ENOENT, "No such file", "/a")) == "/a: No such file"
    assert reason(OSError("it is so")) == "it is so"
    assert reason(UnreadableFile("/a is not a regular file")) == "/a is not a regular file"


def test_display_names_are_distinct() -> None:
    """The whole path if two names are equal, and for the root; escaped if it is not text."""
    assert display_names(["/a/lake", "/b/lake", "/b/other", "/", "/c/\udcff"]) == {
        "/a/lake": "/a/lake",
        "/b/lake": "/b/lake",
        "/b/other": "other",
        "/": "/",
        "/c/\udcff": "\\udcff",
    }
