"""A worker process: it runs expensive functions of `storage` and `protocol` outside the broker's event loop.

runtime/process_pool.py and broker/startup/recovery.py start it as `python -I .../storage/worker_process.py PARENT_PID
NICENESS PATH...` (see `command`), with the broker's sys.path, so that both import the same code. Jobs arrive on
standard input and results leave on standard output; each is a length and a pickle. The worker imports nothing of the
broker and ignores the signals that are sent to a process group. It never outlives its parent, because an orphan would
write into a directory that is being recovered.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable
from struct import Struct
from typing import BinaryIO

#: The prefix of each job and each result: the number of bytes that follow.
LENGTH = Struct(">Q")

_PR_SET_PDEATHSIG = 1
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def command(niceness: int = 0) -> list[str]:
    """Return the command line of a worker whose parent is this process.

    The worker runs at `niceness` above the parent's and exits with the parent.
    """
    return [sys.executable, "-I", __file__, str(os.getpid()), str(niceness), *map(os.path.abspath, sys.path)]


def pack(message: object) -> bytes:
    """Return a message in its form on the pipe: length and pickle."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(data)) + data


def serve(jobs: BinaryIO, results: BinaryIO) -> None:
    """Run jobs until `jobs` ends.

    A job is (function, arguments, keyword arguments); its result is (True, value) or (False, exception).
    """
    while len(length := jobs.read(LENGTH.size)) == LENGTH.size:
        results.write(_outcome(jobs.read(LENGTH.unpack(length)[0])))
        results.flush()


def _outcome(job: bytes) -> bytes:
    try:
        function, arguments, named = pickle.loads(job)
        return pack((True, function(*arguments, **named)))
    except Exception as error:
        return _failure(error)


def _failure(error: Exception) -> bytes:
    try:
        packed = pack((False, error))
        pickle.loads(packed[LENGTH.size :])  # an exception that the parent cannot unpickle would be lost
        return packed
    except Exception:
        return pack((False, RuntimeError(f"{type(error).__name__}: {error}")))


def _bind_to(parent: int, libc: Callable[..., int]) -> bool:
    """Have the kernel kill this process with its parent. Return whether the parent is still running."""
    libc(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    return os.getppid() == parent


def main(arguments: list[str]) -> None:
    """Serve jobs on standard input and output."""
    import ctypes  # not for the broker, which imports this file too

    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    if not _bind_to(int(arguments[0]), ctypes.CDLL(None).prctl):
        return
    os.nice(int(arguments[1]))
    sys.path[:] = arguments[2:]
    # Output that a job prints by mistake must not appear between two results.
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        serve(sys.stdin.buffer, results)
    except BrokenPipeError:
        os._exit(0)  # the parent has gone


if __name__ == "__main__":
    main(sys.argv[1:])
