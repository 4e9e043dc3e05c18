"""A log that its copy in another directory has taken the place of, until that copy is on the disk.

Only then does it go: after a power loss one of the two has to be whole. A flush for which no descriptor was left says
nothing of the disk, and is tried again; where the disk itself fails, both stay for the next start. Until then neither
the cleaner nor another move touches the new log.
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

#: How long until another try.
AGAIN_MS = 1_000


class ReplacedLog:
    """`old` goes once `new` is on the disk. `leave` ends that: both stay, and the next start takes one of them."""

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
        """Force the new log to the disk, and write that it is there."""
        if self._over:
            return
        flush = self._logs.flush_task(self._new, self._clock.now_ms())
        tasks: list[Task] = [*self._logs.checkpoint_tasks(self._new.directory)]
        if flush is not None:
            tasks.insert(0, flush)
        self._background.run(tasks).add_done_callback(lambda _: self._on_flushed(flush))

    def leave(self) -> None:
        """End; nothing is removed."""
        self._over = True
        if self._new.cleaning == self._on_wanted:
            self._new.cleaning = None

    def _on_flushed(self, flush: FlushTask | None) -> None:
        if self._over:
            return
        if not self._new.directory.is_online:
            self.leave()
        elif self._new.flushes if flush is None else flush.error is not None:  # a flush takes over what others are at
            self._timers.call_later(AGAIN_MS, self.flush)
        else:
            self._remove()

    def _on_wanted(self) -> None:
        """Somebody else wants the new log, and waits; or it is closed, since its topic is gone or its disk."""
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
