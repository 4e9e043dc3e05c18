"""Recover many partitions after an unclean stop, in parallel processes, and log the progress.

Checking a batch takes some microseconds of Python, so threads would wait for each other. Each of the
num.recovery.threads.per.data.dir of a log directory is a process (storage/worker_process.py). Jobs that fail, for
example because a process died, are left to the code that opens the logs: it repeats them, or meets the same error. The
standard error of the processes goes to the broker's log.
"""

from __future__ import annotations

import logging
import pickle
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import IO

from runtime.progress import Progress
from storage import worker_process as worker
from storage.recovery.job import Recovered, RecoveryJob, recover_partition

log = logging.getLogger(__name__)

#: With less data, starting the processes would take longer than the work.
SMALL_BYTES = 128 << 20
#: Seconds between two checks of the progress.
_LOOK_S = 0.2


def recover(jobs: list[RecoveryJob], threads: int, small_bytes: int = SMALL_BYTES) -> dict[str, Recovered]:
    """Do the jobs, the largest first, in up to `threads` processes a log directory. Return the results by path.

    With too little data nothing is done here.
    """
    total = sum(job.size_bytes for job in jobs)
    if total < small_bytes:
        return {}
    shares: dict[str, list[RecoveryJob]] = {}
    for job in sorted(jobs, key=lambda each: each.size_bytes):
        shares.setdefault(job.log_dir, []).append(job)
    crews = [share for share in shares.values() for _ in range(min(threads, len(share)))]
    log.info(
        "After an unclean stop: checking %d partitions, %d MB, in %d processes", len(jobs), total >> 20, len(crews)
    )
    began = time.monotonic()
    done: dict[str, Recovered] = {}
    progress = Progress("Recovery", len(jobs), total)
    with ThreadPoolExecutor(len(crews), thread_name_prefix="recovery") as pool:
        members = [_Member(share, done) for share in crews]
        running: Iterable[Future[None]] = {pool.submit(member.work) for member in members}
        while running:
            finished, running = wait(running, _LOOK_S)
            for each in finished:
                each.result()
            progress.show(len(done), sum(member.read_bytes() for member in members))
    progress.end()
    log.info("Checked %d partitions, %d MB in %.1f s", len(done), total >> 20, time.monotonic() - began)
    return done


class _Member:
    """A thread that gives one process one job after the other, from the end of a list that it shares with others."""

    def __init__(self, jobs: list[RecoveryJob], done: dict[str, Recovered]) -> None:
        self._jobs = jobs
        self._done = done
        self._process: subprocess.Popen[bytes] | None = None
        self._read_before = 0

    def work(self) -> None:
        """Work until there are no more jobs, or the process dies."""
        try:
            with _started() as process:
                self._process = process
                assert process.stdin is not None
                assert process.stderr is not None
                saying = threading.Thread(target=_pass_on, args=(process.stderr,))
                saying.start()
                try:
                    while self._jobs:
                        with suppress(IndexError):  # another thread took the last job
                            self._do(process, self._jobs.pop())
                finally:
                    with suppress(OSError):
                        process.stdin.close()  # the process ends when it reads the end
                    saying.join()
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            log.warning("A process for recovery has ended early: %s", error)

    def _do(self, process: subprocess.Popen[bytes], job: RecoveryJob) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(worker.pack((recover_partition, (job,), {})))
        process.stdin.flush()
        size = worker.LENGTH.unpack(_read(process.stdout.read, worker.LENGTH.size))[0]
        succeeded, outcome = pickle.loads(_read(process.stdout.read, size))
        if succeeded:
            self._done[job.log.path] = outcome
        else:
            log.warning("%s is left for later: %s", job.log.path, outcome)

    def read_bytes(self) -> int:
        """Return the bytes that the process has read so far, as the system counts them."""
        if self._process is not None:
            with suppress(OSError, ValueError, IndexError):
                account = Path(f"/proc/{self._process.pid}/io").read_text()
                self._read_before = int(account.split("rchar:")[1].split()[0])
        return self._read_before


def _started() -> subprocess.Popen[bytes]:
    """Start a process; it dies with the thread that started it."""
    return subprocess.Popen(
        worker.command(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        process_group=0,
    )


def _pass_on(said: IO[bytes]) -> None:
    for line in said:
        log.warning("recovery: %s", line.decode("utf-8", "replace").rstrip())


def _read(read: Callable[[int], bytes], size: int) -> bytes:
    data = read(size)
    if len(data) < size:
        raise EOFError("its pipe has ended")
    return data
