"""Standard streams that whoever started the process has closed.

The next file that is opened has the number of one of them: a segment of a log, perhaps, and what anybody prints is in
it then. So they lead to nothing, in this process and in those that it becomes.
"""

from __future__ import annotations

import os
import sys


def open_closed() -> None:
    """Open those on the null device that are closed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free: this one
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))
