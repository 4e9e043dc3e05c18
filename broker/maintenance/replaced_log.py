"""A replaced log, which is kept until its copy in another directory is on disk.

Only then is it removed: after a power loss one of the two must be whole. A flush that failed for lack of a descriptor
says nothing about the disk, and is retried. If the disk itself fails, both logs stay for the next start. Until then
neither the cleaner nor another move touches the new log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.log.partition_log import PartitionLog
from storage.log.tasks import FlushTask, Task

if TYPE_CHECKING:
    from broker.maintenance.log_scheduler import Background
    from runtime.clock import Clock
    from runtime.timers import Timers
    from storage.log_manager import LogManager

#: The delay of a retry.
AGAIN_MS = 1_000


class ReplacedLog:
    """Removes `old` once `new` is on disk. `leave` stops that: both stay, and the next start chooses one."""

    def __init__(
        self,
        logs: LogManager,
        background: Background,
        timers: Timers,
        clock: Clock,
        old: PartitionLog,
        new: PartitionLog,
    ) -> None:
        self._logs = logs
        self._background = background
        self._timers = timers
        self._clock = clock
        self._old = old
        self._new = new
        self._over = False
        new.cleaning = self._on_wanted

    @property
    def is_over(self) -> bool:
        return self._over

    def flush(self) -> None:
        """Flush the new log to disk, and record that."""
        if self._over:
            return
        flush = self._logs.flush_task(self._new, self._clock.now_ms())
        tasks: list[Task] = [*self._logs.checkpoint_tasks(self._new.directory)]
        if flush is not None:
            tasks.insert(0, flush)
        self._background.run(tasks).add_done_callback(lambda _: self._on_flushed(flush))

    def leave(self) -> None:
        """Stop; nothing is removed."""
        self._over = True
        if self._new.cleaning == self._on_wanted:
            self._new.cleaning = None

    def _on_flushed(self, flush: FlushTask | None) -> None:
        if self._over:
            return
        if not self._new.directory.is_online:
            self.leave()
        elif self._new.flushes if flush is None else flush.error is not None:  # a flush may belong to another caller
            self._timers.call_later(AGAIN_MS, self.flush)
        else:
            self._remove()

    def _on_wanted(self) -> None:
        """Stop: another owner waits for the new log, or it is closed: its topic was deleted, or its disk failed."""
        if self._new.closed and not self._over:
            if self._new.directory.is_online:
                self._remove()
            else:
                self.leave()

    def _remove(self) -> None:
        old = self._old
        self.leave()
        if old.directory.is_online:
            self._logs.retire(old, self._clock.now_ms())
            self._background.run(self._logs.checkpoint_tasks(old.directory))
