"""What the broker logs, for its console, too: lines on the pipe that is the console's standard input.

Nobody waits for the console: a line for which there is no room is left out.
"""

from __future__ import annotations

import logging
import os
from contextlib import nullcontext, suppress

from runtime.logs import line_formatter

#: So much goes into a pipe as a whole or not at all (PIPE_BUF of Linux).
_MOST_BYTES = 4096
#: In the place of a descriptor.
_NONE = -1


class ConsoleLog(logging.Handler):
    """To a pipe, whose owner closes it after `let_go`."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        os.set_blocking(descriptor, False)
        self.setFormatter(line_formatter())

    def emit(self, record: logging.LogRecord) -> None:
        """Write it, with what follows the first line of a traceback in lines of its own."""
        if self._descriptor == _NONE:
            return
        try:
            line = self.format(record).encode(errors="replace")
        except Exception:  # arguments that do not fit the text: who logs is not to fail
            self.handleError(record)
            return
        with suppress(OSError):  # the pipe is full, or the console has ended
            os.write(self._descriptor, line[: _MOST_BYTES - 1] + b"\n")

    def let_go(self) -> None:
        """Write no more, also of what another thread logs just now: the number may be another file's soon."""
        with self.lock or nullcontext():
            self._descriptor = _NONE
