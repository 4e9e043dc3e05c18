"""A pool of processes for CPU-bound work; results are resolved on the loop.

A thread that computes would hold the GIL and so block the loop. A process of the pool (storage/worker_process.py)
starts on first use, by exec, never by fork alone. It ends after some idle time, when the broker stops, and at once when
the broker dies. Jobs are module-level functions of lower rooms, sent by name. Their arguments and results are pickled:
file names and plain values, never state of the loop.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import pickle
import subprocess
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, ParamSpec, TypeVar

from runtime.deferred import Deferred
from storage import worker_process as worker

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

#: How long a process without a job is kept. The next job starts another one in a tenth of a second.
IDLE_S = 60.0
#: The size of the pipes: a message of a record batch's size needs one or two system calls; with the default size it
#: would need 16.
_PIPE_BYTES = 1 << 20
_READ_BYTES = 1 << 20
_LINE_BYTES = 1 << 14


class PoolProcessDied(Exception):
    """A process ended before its job was done: it was killed, or out of memory."""


class PoolClosed(PoolProcessDied):
    """The broker stops."""


class ProcessPool:
    """A pool of up to `size` processes, which start jobs in the order of their submission.

    Args:
        size: the largest number of processes.
        name: the purpose of the pool, for the log.
        niceness: added to the processes' niceness; above 0 the loop has priority.
        idle_s: how long a process without a job is kept.
    """

    def __init__(
        self,
        size: int,
        loop: asyncio.AbstractEventLoop,
        *,
        name: str = "worker",
        niceness: int = 0,
        idle_s: float = IDLE_S,
    ) -> None:
        self.size = size
        self._loop = loop
        self._name = name
        self._niceness = niceness
        self._idle_s = idle_s
        self._jobs: deque[_Job[object]] = deque()
        self._processes: dict[_PoolProcess, asyncio.TimerHandle | None] = {}  # a process without a job has a timer
        self._closed = False

    @property
    def process_ids(self) -> list[int]:
        """The ids of the current processes."""
        return [each.process.pid for each in self._processes]

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
        """Run `function` in a process. The Deferred fails with the function's error or with PoolProcessDied.

        A cancel removes a waiting job, and kills the process of a running one.
        """
        deferred: Deferred[T] = Deferred()
        if self._closed:
            deferred.fail(PoolClosed(self._name))
            return deferred
        job: _Job[T] = _Job(deferred, (function, args, kwargs))
        deferred.on_cancel(lambda: self._cancel(job))
        self._jobs.append(job)  # type: ignore[arg-type]
        self._start_jobs()
        return deferred

    def close(self) -> None:
        """Kill the processes. Running and waiting jobs fail with PoolClosed."""
        self._closed = True
        jobs, self._jobs = self._jobs, deque()
        for each in list(self._processes):
            self._forget(each)
            if each.job is not None:
                jobs.appendleft(each.job)
                each.job = None
            each.kill()
        for job in jobs:
            job.fail(PoolClosed(self._name))

    def _start_jobs(self) -> None:
        while self._jobs:
            free = next((each for each in self._processes if each.job is None), None)
            if free is None:
                if len(self._processes) >= self.size:
                    return
                try:
                    free = _PoolProcess(self._loop, self._name, self._niceness, self._on_free, self._on_death)
                except OSError as error:  # no descriptors or no processes are left
                    self._jobs.popleft().fail(PoolProcessDied(f"{self._name}: cannot be started: {error}"))
                    continue
            timer = self._processes.get(free)
            if timer is not None:
                timer.cancel()
            self._processes[free] = None
            free.begin(self._jobs.popleft())

    def _on_free(self, freed: _PoolProcess) -> None:
        if freed in self._processes:
            self._processes[freed] = self._loop.call_later(self._idle_s, self._retire, freed)
            self._start_jobs()

    def _on_death(self, dead: _PoolProcess) -> None:
        self._forget(dead)
        if not self._closed:
            self._start_jobs()

    def _retire(self, idle: _PoolProcess) -> None:
        self._forget(idle)
        idle.end()

    def _forget(self, ended: _PoolProcess) -> None:
        timer = self._processes.pop(ended, None)
        if timer is not None:
            timer.cancel()

    def _cancel(self, job: _Job[T]) -> None:
        for each in self._processes:
            if each.job is job:
                each.kill()
                return
        with suppress(ValueError):
            self._jobs.remove(job)  # type: ignore[arg-type]


class _Job(Generic[T]):
    """A job, and the Deferred of its result."""

    __slots__ = ("call", "deferred")

    def __init__(self, deferred: Deferred[T], call: tuple[object, ...]) -> None:
        self.deferred = deferred
        self.call = call

    def fail(self, error: BaseException) -> None:
        self.deferred.fail(error)


class _PoolProcess:
    """A process and its three pipes, on none of which the loop ever blocks."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        name: str,
        niceness: int,
        on_free: Callable[[_PoolProcess], None],
        on_death: Callable[[_PoolProcess], None],
    ) -> None:
        self.job: _Job[object] | None = None
        self._loop = loop
        self._name = name
        self._on_free = on_free
        self._on_death = on_death
        self._outgoing = memoryview(b"")
        self._incoming = bytearray()
        self._said = b""
        # A process group of its own: a signal from the terminal to the broker's group must not reach the process.
        self.process = subprocess.Popen(
            worker.command(niceness),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
            bufsize=0,
        )
        self._pipes = [pipe for pipe in (self.process.stdin, self.process.stdout, self.process.stderr) if pipe]
        self._stdin, self._stdout, self._stderr = (pipe.fileno() for pipe in self._pipes)
        for handle in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(handle, False)
        for handle in (self._stdin, self._stdout):
            with suppress(OSError):  # over the user's limit the default size stays
                fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        loop.add_reader(self._stdout, self._on_result)
        loop.add_reader(self._stderr, self._on_line)

    def begin(self, job: _Job[object]) -> None:
        """Send a job, as far as the pipe accepts it now. Only a job that starts is pickled, to save memory."""
        try:
            message = worker.pack(job.call)
        except Exception as error:  # it cannot be pickled, or there is no memory
            self.kill()
            job.fail(error)
            return
        self.job = job
        self._outgoing = memoryview(message)
        job.call = ()
        self._send()

    def end(self) -> None:
        """End the process: it exits at the end of its input."""
        self._close()

    def kill(self) -> None:
        """Kill the process; its job fails."""
        self.process.kill()
        self._die()

    def _send(self) -> None:
        was_waiting = bool(self._outgoing)
        try:
            self._outgoing = self._outgoing[os.write(self._stdin, self._outgoing) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._outgoing = memoryview(b"")  # the process has died, which the other pipe reports
        if self._outgoing:
            self._loop.add_writer(self._stdin, self._send)
        elif was_waiting:
            self._loop.remove_writer(self._stdin)

    def _on_result(self) -> None:
        try:
            data = os.read(self._stdout, _READ_BYTES)
        except BlockingIOError:
            return
        if not data:
            if self.job is not None:
                log.warning("The process of a %s ended before its job was done", self._name)
            self._die()
            return
        incoming = self._incoming
        incoming += data
        if len(incoming) < worker.LENGTH.size:
            return
        size = worker.LENGTH.size + worker.LENGTH.unpack_from(incoming)[0]
        if len(incoming) < size:
            return
        self._incoming = bytearray()
        job, self.job = self.job, None
        assert job is not None
        try:
            succeeded, outcome = pickle.loads(memoryview(incoming)[worker.LENGTH.size : size])
        except Exception as error:
            succeeded, outcome = False, error
        self._on_free(self)
        if succeeded:
            job.deferred.resolve(outcome)
        else:
            job.deferred.fail(outcome)

    def _on_line(self) -> None:
        """Log what the process writes to its standard error."""
        try:
            data = os.read(self._stderr, _LINE_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._stderr)
        *lines, self._said = (self._said + data).split(b"\n")
        if len(self._said) > _LINE_BYTES or not data:
            lines, self._said = [*lines, self._said], b""
        for line in lines:
            if line:
                log.warning("%s: %s", self._name, line.decode("utf-8", "replace"))

    def _die(self) -> None:
        if not self._pipes:
            return
        self._on_line()
        self._close()
        job, self.job = self.job, None
        self._on_death(self)
        if job is not None:
            job.fail(PoolProcessDied(f"{self._name}: the process ended before its job was done"))

    def _close(self) -> None:
        """Close the pipes, and wait for the process in a thread, because it may end later."""
        self._loop.remove_writer(self._stdin)
        self._loop.remove_reader(self._stdout)
        self._loop.remove_reader(self._stderr)
        pipes, self._pipes = self._pipes, []
        for pipe in pipes:
            pipe.close()
        self._loop.run_in_executor(None, self.process.wait)
