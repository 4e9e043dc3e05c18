"""The process of a worker: `python -I .../broker/workers/process.py PARENT_PID HANDLE PATH...` (spawn.py).

HANDLE is its end of the link, on which the main process sends `Begin`. PATH... is the main process's sys.path, so that
both run the same code. A worker ignores the signals that a terminal sends to the whole process group: the main process
stops it with a message. It never outlives the main process: an orphan would write into directories that another broker
has locked.
"""

from __future__ import annotations

import os
import sys


def main(arguments: list[str]) -> int:
    """Run a worker until the main process stops it, and return the exit code."""
    import ctypes
    import gc
    import signal

    libc = ctypes.CDLL(None)
    libc.prctl(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != int(arguments[0]):
        return 1
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    sys.path[:] = arguments[2:]
    gc.disable()  # until it has started, as in the main process

    from broker.workers.lifecycle import run

    return run(int(arguments[1]))


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)
