"""Files of any size and kind, as commands read them."""

from __future__ import annotations

import os
import resource
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


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that writes may get no processor for seconds."""
    monkeypatch.setattr("pybroker.text_files._WRITER_S", 60.0)


@pytest.mark.usefixtures("patient")
def test_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    """A shell passes one for `--command-config <(...)`."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"x" * 200_000,), daemon=True)
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


@pytest.mark.usefixtures("patient")
def test_pipe_may_get_its_writer_a_moment_later(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Timer(0.3, pipe.write_bytes, args=(b"x",))
    writer.daemon = True
    writer.start()
    assert file_bytes(pipe) == b"x"
    writer.join()


@pytest.mark.usefixtures("patient")
def test_pipe_is_read_by_a_process_with_many_files(tmp_path: Path) -> None:
    """select() knows descriptors below 1,024 only."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    files: list[int] = []
    try:
        while not files or files[-1] < 1024:
            files.append(os.open("/dev/null", os.O_RDONLY))
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        held = os.open(pipe, os.O_RDWR)  # a writer that writes later
        writer = threading.Timer(0.2, lambda: (os.write(held, b"x"), os.close(held)))
        writer.start()
        assert file_bytes(pipe) == b"x"
    finally:
        for each in files:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
