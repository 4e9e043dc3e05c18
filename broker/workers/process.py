"""The process of a worker: `python -I .../broker/workers/process.py PARENT_PID HANDLE PATH...` (`command`).

HANDLE is its end of the link, on which the owner says what to begin with; PATH... is the owner's own sys.path, so that
both run the same code. It ignores the signals that people send to groups of processes, as the owner says when to stop,
and never outlives the owner: an orphan would write into directories that another broker has taken.
"""

from __future__ import annotations

import os
import sys


def command(handle: int) -> list[str]:
    """The command line of a worker that this process starts."""
    return [sys.executable, "-I", __file__, str(os.getpid()), str(handle), *map(os.path.abspath, sys.path)]


def main(arguments: list[str]) -> int:
    """Be a worker until the owner says that it is enough; the exit code."""
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
    gc.disable()  # until it is up, as the owner

    from broker.workers.lifecycle import run

    return run(int(arguments[1]))


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)
