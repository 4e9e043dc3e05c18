"""Files of any size and kind, as commands read them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from pybroker.text_files import file_bytes, open_file


def test_file_up_to_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert file_bytes(tmp_path / "file", 5) == b"12345"
    with pytest.raises(OSError, match="it has more than 4 bytes") as caught:
        file_bytes(tmp_path / "file", 4)
    assert caught.value.filename == f"{tmp_path}/file"


def test_endless_file_is_refused() -> None:
    """Its content would fill the memory."""
    with pytest.raises(OSError, match="it has more than 16777216 bytes"):
        file_bytes("/dev/zero")


def test_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    """A shell passes one for `--command-config <(...)`."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"x" * 200_000,))
    writer.start()
    assert file_bytes(pipe) == b"x" * 200_000
    writer.join()


def test_pipe_without_a_writer_is_an_error(tmp_path: Path) -> None:
    """`open` would wait for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no process writes to this pipe"):
        file_bytes(pipe)
    with pytest.raises(OSError, match="it is a pipe, not a file"):
        open_file(pipe)


def test_pipe_may_get_its_writer_a_moment_later(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Timer(0.3, pipe.write_bytes, args=(b"x",))
    writer.start()
    assert file_bytes(pipe) == b"x"
    writer.join()
