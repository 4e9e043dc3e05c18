"""A clean shutdown: write what the logs hold in memory and force it to the disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from storage.log.flushing import full_flush
from storage.log.partition_log import PartitionLog
from storage.log.tasks import Task, WriteTask

#: fsyncs in parallel.
_FLUSHES_AT_ONCE = 16


def close_logs(logs: Iterable[PartitionLog], now_ms: int) -> None:
    """Write and close all logs whose directory works. A directory that fails goes offline."""
    usable = [log for log in logs if log.directory.is_online and not log.closed]
    for log in usable:
        log.directory.attempt(log.complete)
    # A disk completes many flushes together as fast as one, but each flush holds its files open.
    with ThreadPoolExecutor(_FLUSHES_AT_ONCE) as pool:
        for start in range(0, len(usable), _FLUSHES_AT_ONCE):
            some = usable[start : start + _FLUSHES_AT_ONCE]
            tasks = [task for log in some for task in _last_tasks(log, now_ms)]
            deque(pool.map(lambda task: task.run(), tasks), maxlen=0)
            for task in tasks:
                task.apply()
            for log in some:
                log.close_files()


def _last_tasks(log: PartitionLog, now_ms: int) -> Iterator[Task]:
    if (data := log.leader_epochs.unwritten()) is not None:
        yield WriteTask(log.directory, log.leader_epochs.path, data)
    if (task := full_flush(log, now_ms)) is not None:
        yield task
