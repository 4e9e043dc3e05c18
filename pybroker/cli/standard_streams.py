"""Open standard streams that the parent process has closed.

Otherwise the next file that is opened, such as a log segment, gets the descriptor of a standard stream, and everything
that is printed is written into it. The streams go to the null device, also in processes that replace this one.
"""

from __future__ import annotations

import os
import sys


def open_closed() -> None:
    """Open the closed ones on the null device."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # open() takes the lowest free number: this one
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))
