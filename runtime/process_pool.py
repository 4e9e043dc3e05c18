"""ProcessPool: a few processes for what is heavy on the processor, results resolved on the loop.

A thread that computes would hold the interpreter, and the loop with it. A worker is a process of its own
(storage/worker_process.py), started when it is first needed, by exec and never by a bare fork; it ends when it had
nothing to
do for a while, when the broker stops, and at once when the broker dies. Jobs are module-level functions of the rooms
below, by name, with arguments and results that pickle: file names and plain values, never state of the loop.
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

#: A worker without a job for so long ends; the next job starts another one, in a tenth of a second.
IDLE_S = 60.0
#: A message of a record batch's size passes the pipe in one or two calls; the system's own size would take 16.
_PIPE_BYTES = 1 << 20
_READ_BYTES = 1 << 20
_LINE_BYTES = 1 << 14


class PoolProcessDied(Exception):
    """The process was gone before its job was done: killed, or out of memory."""


class PoolClosed(PoolProcessDied):
    """The broker stops."""


class ProcessPool:
    """One pool. Its jobs are started in the order in which they were handed in, `size` at a time.

    Args:
        size: the most processes at a time.
        name: what they are for, in the log.
        niceness: added to their niceness: above 0 they step back behind the loop.
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
        self._processes: dict[_PoolProcess, asyncio.TimerHandle | None] = {}  # those without a job have a timer
        self._closed = False

    @property
    def process_ids(self) -> list[int]:
        """The processes that there are now."""
        return [each.process.pid for each in self._processes]

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
        """Run `function` in a worker. It fails as the function does, or with PoolProcessDied.

        A cancel takes the job back, and kills the process that is at it.
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
        """Kill the processes; what they were at, and what waits, fails with PoolClosed."""
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
                except OSError as error:  # no descriptors, or no processes, left
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

    def _forget(self, gone: _PoolProcess) -> None:
        timer = self._processes.pop(gone, None)
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
    """What is to be done, and who waits for it."""

    __slots__ = ("call", "deferred")

    def __init__(self, deferred: Deferred[T], call: tuple[object, ...]) -> None:
        self.deferred = deferred
        self.call = call

    def fail(self, error: BaseException) -> None:
        self.deferred.fail(error)


class _PoolProcess:
    """One process and its three pipes, none of which the loop ever waits for."""

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
        # A group of its own: what a terminal sends to the broker's group is the broker's business alone.
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
            with suppress(OSError):  # no more than a user may have: the system's own size does, too
                fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        loop.add_reader(self._stdout, self._on_result)
        loop.add_reader(self._stderr, self._on_line)

    def begin(self, job: _Job[object]) -> None:
        """Send a job, as far as the pipe takes it now. It is packed here, as all that wait would be there twice."""
        try:
            message = worker.pack(job.call)
        except Exception as error:  # it does not pickle, or there is no memory
            self.kill()
            job.fail(error)
            return
        self.job = job
        self._outgoing = memoryview(message)
        job.call = ()
        self._send()

    def end(self) -> None:
        """Let it go: at the end of its input it ends by itself."""
        self._close()

    def kill(self) -> None:
        """End it at once; the job that it was at fails."""
        self.process.kill()
        self._die()

    def _send(self) -> None:
        was_waiting = bool(self._outgoing)
        try:
            self._outgoing = self._outgoing[os.write(self._stdin, self._outgoing) :]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._outgoing = memoryview(b"")  # it is dead, which the other pipe tells
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
        """What a worker writes to its standard error, it says in the broker's log."""
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
        """Let go of the pipes and have the process's end taken note of, in a thread: it may come later."""
        self._loop.remove_writer(self._stdin)
        self._loop.remove_reader(self._stdout)
        self._loop.remove_reader(self._stderr)
        pipes, self._pipes = self._pipes, []
        for pipe in pipes:
            pipe.close()
        self._loop.run_in_executor(None, self.process.wait)
