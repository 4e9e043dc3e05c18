"""How a command's process ends when whoever reads its output has seen enough, as `| head` has."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn


def end(command: Callable[[], int]) -> NoReturn:
    """Run a command and end with its exit code; silently and with 0 if its output was closed meanwhile."""
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
