"""Output into a pipe that nobody reads any more, as of `| head`: no traceback, no failure."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

LINES = [
    "--help",
    "--version",
    "--help-broker",
    "topics --help",
    "produce --help",
    "pipeline --help",
    "config --help",
    "config print",
    "config explain log.dirs",
    "doctor",
    "completion bash",
    "man",
    "random-uuid",
]


@pytest.mark.parametrize("line", LINES)
def test_output_that_is_closed_is_no_failure(line: str) -> None:
    """Exit code 0 and nothing said, whether the interpreter keeps what is printed until the end, or does not."""
    reading, writing = os.pipe()
    os.close(reading)
    environ = {**os.environ, "PYTHONUNBUFFERED": "" if line.endswith(("n", "p")) else "1"}
    command = [sys.executable, "-m", "pybroker", *line.split()]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, env=environ, timeout=60)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
