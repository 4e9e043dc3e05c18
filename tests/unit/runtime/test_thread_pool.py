"""ThreadPool: calls in a pool of threads, results on the loop."""

import asyncio
import threading

from runtime.thread_pool import ThreadPool


def test_results_and_errors_are_resolved_on_the_loop():
    """The number of submitted calls is counted."""

    async def scenario():
        loop = asyncio.get_running_loop()
        changes = []
        offload = ThreadPool(loop, 2, changes.append)
        finished = asyncio.Event()
        threads = []

        def done(deferred):
            threads.append(threading.current_thread())
            if offload.queued_count == 0:
                finished.set()

        good = offload(lambda a, b: (a + b, threading.current_thread()), 1, b=2)
        bad = offload(int, "x")
        gone = offload(lambda: None)
        gone.cancel()
        good.add_done_callback(done)
        bad.add_done_callback(done)
        offload(lambda: None).add_done_callback(done)
        await asyncio.wait_for(finished.wait(), 10)
        offload.resize(1)
        offload.close()

        assert good.result()[0] == 3
        assert good.result()[1] is not threading.main_thread()
        assert {threading.main_thread()} == set(threads)
        try:
            bad.result()
        except ValueError:
            pass
        else:
            raise AssertionError
        assert sum(changes) == 0
        assert offload.queued_count == 0

    asyncio.run(scenario())
