"""A worker: the process in which a broker runs heavy functions of this room and of the protocol, beside its loop.

Started by runtime/process_pool.py and broker/startup/recovery.py as `python -I .../storage/worker.py PARENT_PID
NICENESS PATH...` (`command`), with the broker's own sys.path, so that both import the same code. Jobs come in on
standard input and results go out on standard output, each as its length and a pickle. It knows nothing of the broker,
ignores the signals that people send to a group of processes, and never outlives the one that started it: an orphan
would write into a directory under recovery.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Callable
from struct import Struct
from typing import BinaryIO

#: Before each job and each result: how many bytes follow.
LENGTH = Struct(">Q")

_PR_SET_PDEATHSIG = 1
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def command(niceness: int = 0) -> list[str]:
    """The command line of a worker that this process starts, `niceness` above its own, and that dies with it."""
    return [sys.executable, "-I", __file__, str(os.getpid()), str(niceness), *map(os.path.abspath, sys.path)]


def pack(message: object) -> bytes:
    """A message as it stands on a pipe."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(data)) + data


def serve(jobs: BinaryIO, results: BinaryIO) -> None:
    """Run jobs until there are no more: (function, arguments, named ones) -> (True, value) or (False, exception)."""
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
        pickle.loads(packed[LENGTH.size :])  # one that can be made here, but not over there, would be lost
        return packed
    except Exception:
        return pack((False, RuntimeError(f"{type(error).__name__}: {error}")))


def _bind_to(parent: int, libc: Callable[..., int]) -> bool:
    """Die with the process that started this one; whether it is still there."""
    libc(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    return os.getppid() == parent


def main(arguments: list[str]) -> None:
    """Serve the pipes that standard input and output are."""
    import ctypes  # not for the broker, which imports this file too

    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    if not _bind_to(int(arguments[0]), ctypes.CDLL(None).prctl):
        return
    os.nice(int(arguments[1]))
    sys.path[:] = arguments[2:]
    # What a job prints by mistake must not end up between two results.
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        serve(sys.stdin.buffer, results)
    except BrokenPipeError:
        os._exit(0)  # nobody is left to tell


if __name__ == "__main__":
    main(sys.argv[1:])
