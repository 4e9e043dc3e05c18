"""How a command's process ends: a closed output (`| head`), a full disk and Ctrl-C are no tracebacks."""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import Callable
from typing import NoReturn

STANDARD_OUTPUT = 1
#: A shell's exit code for a process that SIGINT ended.
INTERRUPTED = 130


def end(command: Callable[[], int]) -> NoReturn:
    """Run a command and exit with its code; with 0 and no message if its output was closed meanwhile.

    An OSError, of the output or a file, is one line and exit code 1.
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
    """Discard unwritten output: the interpreter flushes once more at its end, and would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def has_no_reader(descriptor: int) -> bool:
    """Return whether the descriptor is a pipe whose reader is gone, without writing to it."""
    watch = select.poll()
    watch.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in watch.poll(0))


def _run(command: Callable[[], int]) -> object:
    try:
        return command()
    except SystemExit as ended:  # raised by a parser, which has printed its help
        return ended.code
    except KeyboardInterrupt:
        print("pybroker: interrupted", file=sys.stderr)
        return INTERRUPTED


def _take_all_text() -> None:
    """Escape characters that standard output cannot encode: names of files and groups may have any."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
