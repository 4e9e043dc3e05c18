"""Standard streams that are closed when a process starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

#: Prints where its standard streams lead, and becomes a process that does so.
PROGRAM = """
import os, sys
from pybroker.cli.standard_streams import open_closed
open_closed()
print("lost")
print("lost", file=sys.stderr)
code = "import os, sys; open(sys.argv[1], 'w').write(' '.join(os.readlink(f'/proc/self/fd/{n}') for n in range(3)))"
os.execv(sys.executable, [sys.executable, "-c", code, sys.argv[1]])
"""


def closed(streams: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command without some of its streams, as a shell can close them."""
    shell = ["sh", "-c", f'exec "$@" {streams}', "sh", *command]
    return subprocess.run(shell, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("streams", ["<&- >&- 2>&-", ">&-", "2>&-", "<&- 2>&-"])
def test_closed_streams_lead_to_dev_null(tmp_path: Path, streams: str) -> None:
    """In this process and the one that it becomes, so that no file gets such a descriptor."""
    found = tmp_path / "found"
    done = closed(streams, sys.executable, "-c", PROGRAM, str(found))
    assert done.returncode == 0
    where = found.read_text().split()
    for number, closing in enumerate(("<&-", ">&-", "2>&-")):
        assert (where[number] == "/dev/null") is (number == 0 or closing in streams.split())


def test_command_without_output_runs(tmp_path: Path) -> None:
    done = closed(">&-", sys.executable, "-m", "pybroker", "kafka-home", str(tmp_path / "home"))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "home/bin/kafka-topics.sh").exists()
