"""ProcessPool: jobs in real processes, results on the loop."""

import asyncio
import gc
import os
import pickle
import signal
import subprocess
import sys
import time

import pytest

from broker.process.event_loop import new_event_loop
from runtime.process_pool import PoolClosed, PoolProcessDied, ProcessPool
from storage.errors import RecordTooLarge
from storage.log_config import LogConfig
from tests.support.eventually import eventually, eventually_async
from tests.support.processes import is_alive

TIMEOUT_S = 30


@pytest.fixture(params=["plain", "uvloop"])
def run(request):
    """Run a coroutine on a loop of either kind."""
    loop = asyncio.new_event_loop() if request.param == "plain" else new_event_loop()

    def run(scenario):
        return loop.run_until_complete(asyncio.wait_for(scenario(loop), TIMEOUT_S))

    yield run
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


async def outcome(deferred):
    """Return the result or the error of a Deferred."""
    done = asyncio.get_running_loop().create_future()
    deferred.add_done_callback(lambda _: done.set_result(None))
    await done
    return deferred.result()


async def ended(pid):
    """Wait until a process has ended and was reaped."""
    await eventually_async(lambda: not os.path.exists(f"/proc/{pid}"))


def test_values_errors_and_large_messages_are_returned(run):
    """A job runs in another process; 5 MB pass in both directions; an exception keeps its fields."""

    async def scenario(loop):
        workers = ProcessPool(1, loop)
        big = os.urandom(5 << 20)
        results = [workers.submit(os.getpid), workers.submit(bytes.__add__, big, b"x")]
        failing = workers.submit(divmod, 1, 0)

        assert os.getpid() != await outcome(results[0])
        assert big + b"x" == await outcome(results[1])
        with pytest.raises(ZeroDivisionError):
            await outcome(failing)
        assert LogConfig(segment_bytes=7) == await outcome(workers.submit(LogConfig, segment_bytes=7))
        assert len(workers.process_ids) == 1
        workers.close()

    run(scenario)


def test_a_job_that_cannot_be_sent_fails_alone(run):
    """It is pickled only when it starts, to save memory."""

    async def scenario(loop):
        workers = ProcessPool(1, loop)
        jobs = [workers.submit(lambda: 1), workers.submit(divmod, 7, 2), workers.submit(lambda: 2)]
        assert await outcome(jobs[1]) == (3, 1)
        for each in (jobs[0], jobs[2]):
            with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
                await outcome(each)
        workers.close()

    run(scenario)


def test_jobs_start_in_order_up_to_the_pools_size(run, tmp_path):
    """A pool of two needs two processes for three jobs if the first one is the longest."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    async def scenario(loop):
        workers = ProcessPool(2, loop)
        done = []
        calls = [(os.open, str(fifo), os.O_RDONLY), (time.sleep, 0), (time.sleep, 0)]  # the first waits for a writer
        jobs = [workers.submit(*call) for call in calls]
        for number, job in enumerate(jobs):
            job.add_done_callback(lambda _, number=number: done.append(number))
        await outcome(jobs[2])
        with fifo.open("wb"):
            await outcome(jobs[0])

        assert done == [1, 2, 0]
        assert len(workers.process_ids) == 2
        workers.close()

    run(scenario)


def test_a_killed_process_fails_only_its_job(run, caplog):
    """The other jobs continue, and the next one gets a new process."""

    async def scenario(loop):
        workers = ProcessPool(1, loop)
        (pid,) = [await outcome(workers.submit(os.getpid))]
        lost, kept = workers.submit(time.sleep, 60), workers.submit(os.getpid)
        os.kill(pid, signal.SIGKILL)

        with pytest.raises(PoolProcessDied):
            await outcome(lost)
        assert pid != await outcome(kept)
        await ended(pid)
        workers.close()

    run(scenario)

    assert "ended before its job was done" in caplog.text


def test_a_cancelled_job_does_not_run(run):
    """A waiting job is removed; the process of a running one is killed."""

    async def scenario(loop):
        workers = ProcessPool(1, loop)
        pid = await outcome(workers.submit(os.getpid))
        running, waiting, last = (workers.submit(*job) for job in ((time.sleep, 60), (time.sleep, 60), (os.getpid,)))
        waiting.cancel()
        running.cancel()

        assert pid != await outcome(last)
        await ended(pid)
        workers.close()

    run(scenario)


def test_an_idle_process_ends(run):
    """A job before the end of the idle time keeps it."""

    async def scenario(loop):
        workers = ProcessPool(1, loop, idle_s=0.5)
        first = await outcome(workers.submit(os.getpid))
        assert first == await outcome(workers.submit(os.getpid))
        await ended(first)

        assert workers.process_ids == []
        assert first != await outcome(workers.submit(os.getpid))
        workers.close()

    run(scenario)


def test_close_kills_processes_and_fails_jobs(run):
    """Running, waiting and later jobs."""

    async def scenario(loop):
        workers = ProcessPool(1, loop)
        pid = await outcome(workers.submit(os.getpid))
        jobs = [workers.submit(time.sleep, 60), workers.submit(time.sleep, 60)]
        workers.close()
        jobs.append(workers.submit(abs, 1))

        for job in jobs:
            with pytest.raises(PoolClosed):
                await outcome(job)
        await ended(pid)

    run(scenario)


def test_signals_to_the_brokers_group_do_not_reach_it(run, caplog):
    """Ctrl-C and `kill` of the whole group: the broker decides, and nothing is printed."""

    async def scenario(loop):
        workers = ProcessPool(1, loop)
        pid = await outcome(workers.submit(os.getpid))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)

        assert pid == await outcome(workers.submit(os.getpid))
        assert os.getpgid(pid) != os.getpgid(0)
        workers.close()
        await ended(pid)

    run(scenario)

    assert caplog.text == ""


def test_output_of_a_process_is_logged(run, caplog):
    """Standard output is logged too, as it must not mix with results."""

    async def scenario(loop):
        workers = ProcessPool(1, loop, name="re-encoder")
        await outcome(workers.submit(print, "to standard output", flush=True))
        await outcome(workers.submit(os.write, 2, b"to standard error\n"))
        await eventually_async(lambda: "standard error" in caplog.text)
        workers.close()

    run(scenario)

    assert [("runtime.process_pool", 30, f"re-encoder: to standard {kind}") for kind in ("output", "error")] == (
        caplog.record_tuples
    )


def test_niceness_is_added(run):
    """The loop has priority over a cleaner."""

    async def scenario(loop):
        workers = ProcessPool(1, loop, niceness=3)

        assert os.nice(0) + 3 == await outcome(workers.submit(os.nice, 0))
        workers.close()

    run(scenario)


def test_storage_errors_keep_their_class(run):
    """The broker's table of error codes needs the class that was raised."""

    async def scenario(loop):
        workers = ProcessPool(1, loop)
        result = await outcome(workers.submit(RecordTooLarge, 3, 2))

        assert (RecordTooLarge, 3, 2) == (type(result), result.size_bytes, result.limit_bytes)
        workers.close()

    run(scenario)


_PARENT = """
import asyncio, os, signal, sys, time
from pybroker.engine_process import enter
enter()
from runtime.process_pool import ProcessPool
async def life():
    workers = ProcessPool(1, asyncio.get_running_loop())
    workers.submit(os.getpid).add_done_callback(lambda done: print(done.result(), flush=True))
    workers.submit(time.sleep, 600)
    await asyncio.sleep(600)
asyncio.run(life())
"""


def test_a_process_dies_with_its_broker():
    """During a job, the process does not read its pipe."""
    with subprocess.Popen([sys.executable, "-I", "-c", _PARENT], stdout=subprocess.PIPE) as parent:
        pid = int(parent.stdout.readline())
        parent.kill()
    eventually(lambda: not is_alive(pid), timeout_s=TIMEOUT_S)


@pytest.fixture(autouse=True)
def _no_leaks():
    """Leaked processes and pipes are found here, not in a later test."""
    yield
    gc.collect()
