"""Background work on logs: threads that make slow system calls, and the schedule that starts them.

The event loop owns all state. It creates tasks (storage/log/tasks.py). A thread runs them one after the other, and
touches nothing but files. The loop then applies the results. The thread never computes: a thread that holds the
interpreter lock blocks the loop. Flushes that producers wait for have threads of their own, some in parallel: a disk
flushes several files in little more than the time of one.

The schedule:
- flush.ms and rolled segments: every second (log.flush.scheduler.interval.ms if that is shorter), together with the
  removal of files whose delay is over
- retention: every log.retention.check.interval.ms
- files of recovery points and high watermarks: every log.flush.offset.checkpoint.interval.ms
- files of log start offsets: every log.flush.start.offset.checkpoint.interval.ms

All of these first run after log.initial.task.delay.ms. Producers that were idle for producer.id.expiration.ms expire.
For flush.messages the producer's response waits for `flush`. One flush serves all requests of the same turn, and those
that arrive while the previous one runs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING

from broker.external_readers.holds import RetentionHolds
from broker.maintenance.flush_times import FlushTimes
from config import BrokerConfig
from runtime.coalesced_sync import CoalescedSync
from runtime.deferred import Deferred
from runtime.thread_pool import ThreadPool
from runtime.timers import Timer
from storage.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, TopicPartition
from storage.errors import LogOffline
from storage.log.partition_log import PartitionLog
from storage.log.tasks import Task
from storage.log_manager import LogManager

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from runtime.clock import Clock
    from runtime.timers import Timers

log = logging.getLogger(__name__)

#: Logs given to the thread together. Each holds a file or two open meanwhile.
_FLUSHES_AT_ONCE = 16
#: Logs checked for expired segments in a turn of the loop.
_RETAINED_AT_ONCE = 8
#: Logs looked at in a turn meanwhile, most of which are empty.
_LOOKED_AT_AT_ONCE = 64
#: Logs flushed in parallel for producers that wait. Two and eight measured the same; one was half as fast.
_SYNC_THREADS = 4
#: The longest interval between two checks for logs to flush and files to remove.
TICK_MS = 1_000


class Background:
    """Runs background work on all logs in one thread. Its methods belong to the event loop's thread."""

    def __init__(
        self, logs: LogManager, config: BrokerConfig, loop: AbstractEventLoop, timers: Timers, clock: Clock
    ) -> None:
        self._logs = logs
        self._config = config
        self._loop = loop
        self._timers = timers
        self._clock = clock
        self._queue: SimpleQueue[tuple[list[Task], Deferred[None]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="log-background", daemon=True)
        self._syncs = ThreadPool(loop, _SYNC_THREADS, name="log-flush")
        #: The external readers that retention waits for.
        self.holds = RetentionHolds(config)
        logs.unread_from = self.holds.unread_from
        #: The times of flushes.
        self.flush_times = FlushTimes()
        self._stopped = False
        self._armed: dict[str, Timer] = {}
        self._flushes: dict[PartitionLog, CoalescedSync] = {}
        self._flushed: Deferred[None] | None = None

    @property
    def queued_count(self) -> int:
        """The number of task lists that wait for the thread."""
        return self._queue.qsize()

    # -- start and stop ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread and the schedule."""
        config = self._config
        self._logs.producer_expiration_ms = config.get_int("producer.id.expiration.ms")
        config.subscribe("producer.id.expiration.ms", lambda _: self._take_expiration())
        self._thread.start()
        tick_ms = min(config.get_int("log.flush.scheduler.interval.ms"), TICK_MS)
        self._every("flush", tick_ms, self.flush_due, tick_ms)
        for name, work in (
            ("log.retention.check.interval.ms", self.retain),
            ("log.flush.offset.checkpoint.interval.ms", lambda: self.checkpoint(RECOVERY_POINTS, HIGH_WATERMARKS)),
            ("log.flush.start.offset.checkpoint.interval.ms", lambda: self.checkpoint(LOG_START_OFFSETS)),
        ):
            self._every(name, config.get_int(name), work, config.get_int("log.initial.task.delay.ms"))
        name = "producer.id.expiration.check.interval.ms"
        self._every(name, config.get_int(name), self._expire_producers, config.get_int(name))

    def stop(self) -> None:
        """Let the threads finish their tasks, and end them. After that only the loop uses the logs."""
        self._stopped = True
        for timer in self._armed.values():
            timer.cancel()
        self._armed.clear()
        self.holds.stop()
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()
        self._syncs.close()

    @property
    def next_retention_ms(self) -> int | None:
        """When retention is applied next, on the monotonic clock; None before the start and after the stop."""
        timer = self._armed.get("log.retention.check.interval.ms")
        return None if timer is None else timer.deadline_ms

    def _every(self, name: str, interval_ms: int, work: Callable[[], object], first_ms: int) -> None:
        """Call `work` after `first_ms`, and then every `interval_ms`; only once if that is 0, as in Kafka."""

        def run() -> None:
            if interval_ms:
                self._armed[name] = self._timers.call_later(interval_ms, run)
            work()

        self._armed[name] = self._timers.call_later(first_ms, run)

    # -- scheduled work ----------------------------------------------------------------------------------------------

    def flush_due(self) -> Deferred[None]:
        """Flush the logs that are due, and remove files whose delay is over."""
        if self._flushed is None or self._flushed.done:  # else the last flush still runs: the disk is slow
            for closed in [each for each in self._flushes if each.closed]:
                del self._flushes[closed]
            self._flushed = Deferred()
            self._flush_next(self._logs.flush_tasks(self._clock.now_ms()), self._flushed)
        return self._flushed

    def _flush_next(self, tasks: Iterator[Task], done: Deferred[None]) -> None:
        """Flush some logs, then the others, so that flushes for producers can run in between."""
        some = list(islice(tasks, _FLUSHES_AT_ONCE))
        if some:
            self.run(some).add_done_callback(lambda _: self._flush_next(tasks, done))
        else:
            self.run(self._logs.removal_tasks(self._clock.now_ms())).add_done_callback(lambda _: done.resolve(None))

    def retain(self) -> Deferred[None]:
        """Remove expired segments, of some logs in each turn of the loop; resolve when all are removed.

        A closed log is checked if it is open when its turn comes, or else in a later round.
        """
        done: Deferred[None] = Deferred()
        self.holds.forget_gone()
        self._retain_next(iter([*self._logs.logs, *self._logs.unopened]), Deferred.resolved(None), done)
        return done

    def _retain_next(self, keys: Iterator[TopicPartition], last: Deferred[None], done: Deferred[None]) -> None:
        """Remove expired segments of the next logs. `last`: the newest task, which runs after all others."""
        logs, is_over = ([], True) if self._stopped else self._next_to_retain(keys)
        if not is_over:
            now_ms = self._clock.now_ms()
            for each in logs:
                self.holds.warn_if_close(each, now_ms)
            ran = self.run(self._logs.retention_tasks(now_ms, logs))
            newest = last if ran.done else ran
            self._loop.call_soon(lambda: self._retain_next(keys, newest, done))
        else:
            last.add_done_callback(lambda _: done.resolve(None))

    def _next_to_retain(self, keys: Iterator[TopicPartition]) -> tuple[list[PartitionLog], bool]:
        """Return the next logs that may have expired segments, and whether there are no more keys.

        An empty log has none, as many logs of a large broker. A reader may have to be forgotten there, though.
        """
        looks_at_all = self.holds.has_readers
        logs: list[PartitionLog] = []
        count = 0
        for count, key in enumerate(islice(keys, _LOOKED_AT_AT_ONCE), 1):  # noqa: B007 - used behind the loop
            found = self._logs.logs.get(key)
            if found is not None and (found.size_bytes or looks_at_all or len(found.segments) > 1):
                logs.append(found)
                if len(logs) == _RETAINED_AT_ONCE:
                    break
        return logs, not count

    def checkpoint(self, *names: str) -> Deferred[None]:
        """Write the checkpoint files of these names, in all directories."""
        return self.run(self._logs.checkpoint_tasks(names=names))

    def _expire_producers(self) -> None:
        self._logs.expire_producers(self._clock.now_ms())

    def _take_expiration(self) -> None:
        self._logs.producer_expiration_ms = self._config.get_int("producer.id.expiration.ms")

    # -- flush.messages ----------------------------------------------------------------------------------------------

    def flush(self, partition_log: PartitionLog) -> Deferred[None]:
        """Resolve when all present records are on disk. Concurrent calls share a flush. Fails with LogOffline."""
        sync = self._flushes.get(partition_log)
        if sync is None:
            sync = CoalescedSync(lambda: self._flush(partition_log), self._loop.call_soon)
            self._flushes[partition_log] = sync
        return sync.request()

    def forced(self, partition_log: PartitionLog) -> Deferred[None] | None:
        """Return a `flush` if flush.messages asks for one, for work that relies on all records; else None."""
        unforced = partition_log.log_end_offset - partition_log.recovery_point
        return self.flush(partition_log) if unforced >= partition_log.config.flush_messages else None

    def _flush(self, partition_log: PartitionLog) -> Deferred[None]:
        # Linux reports a lost page once: to one sync of a file, not to a parallel or later one. So a log has one flush
        # at a time, after that of the thread if there is one, and goes offline before the flush is answered.
        in_thread = bool(partition_log.flushes)
        task = self._logs.flush_task(partition_log, self._clock.now_ms())
        if task is None:
            return Deferred.resolved(None)
        flushed = self.run([task]) if in_thread else self.run_in_pool(task)
        return flushed.then(lambda _: task.check())

    def run_in_pool(self, task: Task) -> Deferred[None]:
        """Run a task in parallel to the thread; resolve on the loop once its result is applied."""
        if self._stopped:
            failed: Deferred[None] = Deferred()
            failed.fail(LogOffline("the log", "the broker stops"))
            return failed
        return self._syncs(self.flush_times.run, task).then(lambda _: task.apply())

    # -- the thread --------------------------------------------------------------------------------------------------

    def run(self, tasks: Iterable[Task]) -> Deferred[None]:
        """Run tasks in the thread; resolve on the loop once their results are applied."""
        done: Deferred[None] = Deferred()
        handed = list(tasks)
        if handed:
            self._queue.put((handed, done))
        else:
            done.resolve(None)
        return done

    def _work(self) -> None:
        while (handed := self._queue.get()) is not None:
            tasks, done = handed
            for task in tasks:
                self.flush_times.run(task)
            try:
                self._loop.call_soon_threadsafe(self._apply, tasks, done)
            except RuntimeError:  # the loop is closed, and cannot apply results
                return

    @staticmethod
    def _apply(tasks: list[Task], done: Deferred[None]) -> None:
        for task in tasks:
            try:
                task.apply()
            except Exception:  # the other tasks, and the next round, must go on
                log.exception("The result of %s could not be applied", type(task).__name__)
        done.resolve(None)
