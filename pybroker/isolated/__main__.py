"""The process: requests on standard input, answers on standard output, until the input ends."""

from __future__ import annotations

import os
import signal
import sys

from pybroker import engine_process


def main() -> None:
    """Serve whoever started this."""
    engine_process.enter()
    from pybroker.isolated.serving import serve

    # whoever interrupts a Spark job, or a notebook, means that; what it has started ends when it does
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing that anybody prints gets between the frames
    try:
        serve(sys.stdin.buffer, answers)
    except BrokenPipeError:  # nobody wants to know any more
        os._exit(0)


if __name__ == "__main__":
    main()
