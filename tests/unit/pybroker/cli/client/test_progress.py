"""The progress bar of long commands."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from pybroker.cli.client.progress import ProgressBar
from tests.support.dump_log import LOGS


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bar_on_a_terminal() -> None:
    """Drawn at most ten times a second, and cleared at the end."""
    moments = iter((10.0, 10.05, 11.0))
    stream = Terminal()
    bar = ProgressBar("Copying", stream=stream, now=lambda: next(moments))
    bar.show(1, 2, "half")
    bar.show(2, 2, "too early")
    bar.show(3, 2, "all")
    bar.end()
    with bar:
        pass
    drawn = stream.getvalue().split("\r\x1b[K")
    assert drawn == ["", f"Copying [{'#' * 15}{'.' * 15}] half", f"Copying [{'#' * 30}] all", "", ""]


def shown(command: list[str], columns: int | None) -> tuple[str, str]:
    """Run a command with standard output as a pipe; return that and standard error: a terminal, or a pipe with None."""
    if columns is None:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.stdout, done.stderr
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True)
        os.close(theirs)
        drawn = b""
        try:
            while piece := terminal.read(1 << 16):
                drawn += piece
        except OSError:  # as a terminal reports that its other side is closed
            pass
        return process.communicate(timeout=60)[0], drawn.decode()


_DRAWS = """
from pybroker.cli.client.progress import ProgressBar
moments = iter((1.0, 2.0))
with ProgressBar("Copying", now=lambda: next(moments)) as bar:
    bar.show(1, 2, "this is a text of more than forty characters in a row")
    bar.show(2, 2, "all")
print("copied")
"""


@pytest.mark.parametrize("command", ["a bar", "verify"])
@pytest.mark.parametrize("columns", [80, 24])
def test_bar_takes_one_row_of_the_terminal(tmp_path: Path, command: str, columns: int) -> None:
    """So that it can be cleared. Pipes and standard output have none of it."""
    line = [sys.executable, "-c", _DRAWS]
    if command == "verify":
        shutil.copytree(LOGS / "v4.3.1-clean-shutdown", tmp_path, dirs_exist_ok=True)
        line = [sys.executable, "-m", "pybroker", "verify", str(tmp_path)]
    printed, drawn = shown(line, columns)
    rows = [row for row in drawn.split("\r\x1b[K") if row]
    assert drawn.endswith("\r\x1b[K")
    assert rows
    assert all(re.match(r"(Copying|Checking) \[[#.]+", row) for row in rows)
    assert max(map(len, rows)) < columns
    assert shown(line, None) == (printed, "")
    assert printed in ("copied\n", "25 partitions, 0 MB: no problems (64 notes)\n")


def test_no_bar_in_files_and_pipes() -> None:
    stream = io.StringIO()
    bar = ProgressBar("Copying", stream=stream)
    bar.show(1, 2, "half")
    bar.end()
    assert stream.getvalue() == ""
