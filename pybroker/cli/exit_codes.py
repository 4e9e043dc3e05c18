"""How a command's process ends: whoever reads its output may have seen enough, as `| head` has; what it prints may find
no room; somebody may press Ctrl-C. None of these is a traceback.
"""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Callable
from typing import NoReturn

STANDARD_OUTPUT = 1
#: As a shell tells of a process that SIGINT has ended.
INTERRUPTED = 130


def end(command: Callable[[], int]) -> NoReturn:
    """Run a command and end with its exit code; silently and with 0 if its output was closed meanwhile.

    An output, or a file, that refuses is one line, and 1.
    """
    _take_all_text()
    try:
        code = _run(command)
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
        code = 0
    except OSError as error:
        drop_output()
        reason = error.strerror or str(error)
        print(f"pybroker: {error.filename}: {reason}" if error.filename else f"pybroker: {reason}", file=sys.stderr)
        code = 1
    sys.exit(code)  # type: ignore[arg-type]


def drop_output() -> None:
    """What is not written yet goes nowhere: the interpreter flushes once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def has_no_reader(descriptor: int) -> bool:
    """Whether it is a pipe that nobody reads any more, which is known without writing to it."""
    watch = select.poll()
    watch.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in watch.poll(0))


def _run(command: Callable[[], int]) -> object:
    try:
        return command()
    except SystemExit as ended:  # of a parser, which has printed its help
        return ended.code
    except KeyboardInterrupt:
        print("pybroker: interrupted", file=sys.stderr)
        return INTERRUPTED


def _take_all_text() -> None:
    """Names of files and of groups may be what standard output has no characters for; then they are escaped."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
