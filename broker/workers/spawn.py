"""The command line that starts a worker's process."""

from __future__ import annotations

import os
import sys


def command(handle: int) -> list[str]:
    """Return the command of a worker whose end of the link is this file descriptor (process.py)."""
    script = os.path.join(os.path.dirname(__file__), "process.py")
    return [sys.executable, "-I", script, str(os.getpid()), str(handle), *map(os.path.abspath, sys.path)]
