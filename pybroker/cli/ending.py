"""How a command's process ends where whoever reads what it prints has seen enough, as `| head` has."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn


def end(command: Callable[[], int]) -> NoReturn:
    """Run a command and end with its exit code; with 0, and without a word, when its output is closed meanwhile."""
    try:
        try:
            code: object = command()
        except SystemExit as ended:  # of a parser, which has printed its help
            code = ended.code
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes once more
        code = 0
    sys.exit(code)  # type: ignore[arg-type]
