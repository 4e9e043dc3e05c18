"""Send the broker's log to its console: lines on the pipe that is the console's standard input.

Logging never waits for the console: a line is dropped if the pipe is full.
"""

from __future__ import annotations

import logging
import os
from contextlib import nullcontext, suppress

from runtime.logs import line_formatter

#: A write of this size is atomic on a pipe (PIPE_BUF of Linux).
_MOST_BYTES = 4096
#: In place of a descriptor: closed.
_NONE = -1


class ConsoleLog(logging.Handler):
    """Writes log lines to a pipe. Its owner closes the pipe after `let_go`."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        os.set_blocking(descriptor, False)
        self.setFormatter(line_formatter())

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, with the rest of a traceback on lines of its own."""
        if self._descriptor == _NONE:
            return
        try:
            line = self.format(record).encode(errors="replace")
        except Exception:  # arguments that do not fit the text must not fail the code that logs
            self.handleError(record)
            return
        with suppress(OSError):  # the pipe is full, or the console has ended
            os.write(self._descriptor, line[: _MOST_BYTES - 1] + b"\n")

    def let_go(self) -> None:
        """Stop writing, in all threads: after this the descriptor's number may belong to another file."""
        with self.lock or nullcontext():
            self._descriptor = _NONE
