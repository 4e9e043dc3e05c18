"""Background: the threads that make the slow system calls of the logs, and the clockwork that says when.

The event loop owns all state. It makes tasks (storage/log/tasks.py), a thread runs them one after the other and touches
nothing but files, and the loop applies what came of them. The thread never computes: a thread that holds the
interpreter holds up the loop. Flushes that a producer waits for have threads of their own, some at a time: a disk
forces several files in little more than the time of one.

What is due: flush.ms and rolled segments every second (log.flush.scheduler.interval.ms when that is shorter), files
whose grace is over with it; retention every log.retention.check.interval.ms; recovery points and high watermarks are
written to their files every log.flush.offset.checkpoint.interval.ms, log start offsets every
log.flush.start.offset.checkpoint.interval.ms; all these for the first time after log.initial.task.delay.ms. Producers
that were silent for producer.id.expiration.ms are forgotten. flush.messages is kept by the producer's answer waiting
for `flush`, which forces the records of all who ask for it in the same turn, or while the one before is under way.
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

#: Logs handed to the thread together; each holds a file open or two meanwhile.
_FLUSHES_AT_ONCE = 16
#: Logs looked at for expired segments in a turn of the loop.
_RETAINED_AT_ONCE = 8
#: So many logs are forced to the disk at a time for producers that wait: two and eight were measured alike, one half as
#: good.
_SYNC_THREADS = 4
#: The longest between two looks at what has to be flushed or removed.
TICK_MS = 1_000


class Background:
    """One thread for all logs. Its methods belong to the event loop's thread."""

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
        #: For whom retention waits, and who is told.
        self.holds = RetentionHolds(config)
        logs.unread_from = self.holds.unread_from
        #: What flushes of logs took.
        self.flush_times = FlushTimes()
        self._stopped = False
        self._armed: dict[str, Timer] = {}
        self._flushes: dict[PartitionLog, CoalescedSync] = {}
        self._flushed: Deferred[None] | None = None

    @property
    def queued_count(self) -> int:
        """Lots of tasks that wait for the thread."""
        return self._queue.qsize()

    # -- start and stop ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread and the clockwork."""
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
        """Let the threads finish what they have, and end them: the logs are then the loop's alone."""
        self._stopped = True
        for timer in self._armed.values():
            timer.cancel()
        self._armed.clear()
        self.holds.stop()
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()
        self._syncs.close()

    def _every(self, name: str, interval_ms: int, work: Callable[[], object], first_ms: int) -> None:
        """Do `work` after `first_ms` and then each `interval_ms`; just once with an interval of 0, as in Kafka."""

        def run() -> None:
            if interval_ms:
                self._armed[name] = self._timers.call_later(interval_ms, run)
            work()

        self._armed[name] = self._timers.call_later(first_ms, run)

    # -- what is due -------------------------------------------------------------------------------------------------

    def flush_due(self) -> Deferred[None]:
        """Force what is due to the disk, and remove what has had its time of grace."""
        if self._flushed is None or self._flushed.done:  # else the disk is slower than the clock
            for closed in [each for each in self._flushes if each.closed]:
                del self._flushes[closed]
            self._flushed = Deferred()
            self._flush_next(self._logs.flush_tasks(self._clock.now_ms()), self._flushed)
        return self._flushed

    def _flush_next(self, tasks: Iterator[Task], done: Deferred[None]) -> None:
        """Flush some logs, then the others: who waits for a flush of their own comes in between."""
        some = list(islice(tasks, _FLUSHES_AT_ONCE))
        if some:
            self.run(some).add_done_callback(lambda _: self._flush_next(tasks, done))
        else:
            self.run(self._logs.removal_tasks(self._clock.now_ms())).add_done_callback(lambda _: done.resolve(None))

    def retain(self) -> Deferred[None]:
        """Take out expired segments, of some logs at a time between other work of the loop; resolves when all are out.

        A log that waits to be opened is looked at if it is open when its turn comes, or in a later round.
        """
        done: Deferred[None] = Deferred()
        self.holds.forget_gone()
        self._retain_next(iter([*self._logs.logs, *self._logs.unopened]), Deferred.resolved(None), done)
        return done

    def _retain_next(self, keys: Iterator[TopicPartition], last: Deferred[None], done: Deferred[None]) -> None:
        """`last`: the newest of the tasks; the thread has run those before it when it has run this."""
        some = [] if self._stopped else list(islice(keys, _RETAINED_AT_ONCE))
        if some:
            logs = [partition_log for key in some if (partition_log := self._logs.logs.get(key)) is not None]
            now_ms = self._clock.now_ms()
            for each in logs:
                self.holds.look_at(each, now_ms)
            ran = self.run(self._logs.retention_tasks(now_ms, logs))
            newest = last if ran.done else ran
            self._loop.call_soon(lambda: self._retain_next(keys, newest, done))
        else:
            last.add_done_callback(lambda _: done.resolve(None))

    def checkpoint(self, *names: str) -> Deferred[None]:
        """Write the checkpoint files of these names, in all directories."""
        return self.run(self._logs.checkpoint_tasks(names=names))

    def _expire_producers(self) -> None:
        self._logs.expire_producers(self._clock.now_ms())

    def _take_expiration(self) -> None:
        self._logs.producer_expiration_ms = self._config.get_int("producer.id.expiration.ms")

    # -- flush.messages ----------------------------------------------------------------------------------------------

    def flush(self, partition_log: PartitionLog) -> Deferred[None]:
        """Resolves when all that is in the log now is on the disk; one flush for all that ask meanwhile. LogOffline."""
        sync = self._flushes.get(partition_log)
        if sync is None:
            sync = CoalescedSync(lambda: self._flush(partition_log), self._loop.call_soon)
            self._flushes[partition_log] = sync
        return sync.request()

    def forced(self, partition_log: PartitionLog) -> Deferred[None] | None:
        """`flush` for what relies on all that is in the log, where flush.messages asks for one; None: go on at once."""
        unforced = partition_log.log_end_offset - partition_log.recovery_point
        return self.flush(partition_log) if unforced >= partition_log.config.flush_messages else None

    def _flush(self, partition_log: PartitionLog) -> Deferred[None]:
        # Linux tells of pages that it lost once: to one sync of a file, not to another beside it or after it. So a log
        # has one flush at a time, this one behind that of the thread if need be, and is offline before it is answered.
        in_thread = bool(partition_log.flushes)
        task = self._logs.flush_task(partition_log, self._clock.now_ms())
        if task is None:
            return Deferred.resolved(None)
        flushed = self.run([task]) if in_thread else self.run_in_pool(task)
        return flushed.then(lambda _: task.check())

    def run_in_pool(self, task: Task) -> Deferred[None]:
        """Have a task run beside those of the thread; resolves on the loop once it is run and applied."""
        if self._stopped:
            failed: Deferred[None] = Deferred()
            failed.fail(LogOffline("the log", "the broker stops"))
            return failed
        return self._syncs(self.flush_times.run, task).then(lambda _: task.apply())

    # -- the thread --------------------------------------------------------------------------------------------------

    def run(self, tasks: Iterable[Task]) -> Deferred[None]:
        """Have tasks run in the thread; resolves on the loop once they are run and applied."""
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
            except RuntimeError:  # the loop is closed: nobody is left to apply it for
                return

    @staticmethod
    def _apply(tasks: list[Task], done: Deferred[None]) -> None:
        for task in tasks:
            try:
                task.apply()
            except Exception:  # the others, and the next round of all, are not to wait for ever
                log.exception("What %s has done could not be applied", type(task).__name__)
        done.resolve(None)
