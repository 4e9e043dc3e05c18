"""A worker's lifecycle: from the main process's first message to its last."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading

from broker.process.event_loop import new_event_loop
from broker.process.loop_settings import on_loop_exception, reduce_garbage_collection
from broker.process.start_errors import CannotStart
from broker.workers.link import receive_first
from broker.workers.messages import Begin, Refused
from broker.workers.worker import Worker
from runtime import logs

log = logging.getLogger(__name__)


def run(handle: int) -> int:
    """Run a worker, and return the exit code. `handle` is the worker's end of the link."""
    sock = socket.socket(fileno=handle)
    try:
        begin: Begin = receive_first(sock)
    except (EOFError, OSError):
        return 1  # the main process has ended
    logs.setup(json=begin.log_as_json, process=f"worker {begin.number}")
    logs.set_levels(begin.log_levels)
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    loop.set_exception_handler(on_loop_exception)
    ended: asyncio.Future[int] = loop.create_future()

    def end(exit_code: int) -> None:
        if not ended.done():
            ended.set_result(exit_code)

    def on_thread_exception(arguments: threading.ExceptHookArgs) -> None:
        """End the worker when one of its threads has died: the thread's work is no longer done."""
        if arguments.exc_type is not SystemExit:
            log.critical("A thread failed: the worker ends", exc_info=arguments.exc_value)
            loop.call_soon_threadsafe(end, 1)

    threading.excepthook = on_thread_exception
    try:
        return loop.run_until_complete(_serve(Worker(begin, sock, loop, end), ended))
    except Exception:
        log.critical("The worker ends because of an unexpected error", exc_info=True)
        return 1


async def _serve(worker: Worker, ended: asyncio.Future[int]) -> int:
    try:
        await worker.start()
    except CannotStart as error:
        worker.link.send(Refused(str(error)))
        await worker.link.drained()
        return 1
    reduce_garbage_collection(worker.opening, worker.lazy_imports)
    exit_code = await ended
    await worker.link.drained()
    return exit_code
