"""The process: requests on standard input, responses on standard output, until the input ends."""

from __future__ import annotations

import os
import signal
import sys

from pybroker import engine_process


def main() -> None:
    """Serve the process that started this one."""
    engine_process.enter()
    from pybroker.isolated.serving import serve

    # Ctrl-C is for the Spark job or the notebook; this process ends with it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # printed text must not get between the frames
    try:
        serve(sys.stdin.buffer, answers)
    except BrokenPipeError:  # the reader is gone
        os._exit(0)


if __name__ == "__main__":
    main()
