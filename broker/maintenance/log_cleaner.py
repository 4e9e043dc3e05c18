"""The log cleaner: it decides which compacted logs are cleaned, and when. Processes of its own do the work.

Every log.cleaner.backoff.ms, and after each round, it checks all logs with cleanup.policy compact
(storage/cleaner/selection.py). It gives the dirtiest of those that are due to workers (storage/cleaner/round.py), up to
log.cleaner.threads at a time. The workers have a lower priority than the loop, and share
log.cleaner.dedupe.buffer.size, log.cleaner.io.buffer.size and log.cleaner.io.max.bytes.per.second. A result is swapped
in if the log has not changed otherwise (storage/cleaner/swap.py), and discarded if it has. Retention leaves a log alone
while it is cleaned; each check also applies retention to logs whose policy includes delete. A log that cannot be
cleaned is logged, and skipped from then on. An I/O error takes its directory offline, as everywhere.

cleaner-offset-checkpoint has the offset at which each round ended. log.cleaner.enable=false turns all of this off.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from broker.maintenance.cleaning_round import CleaningRound
from broker.maintenance.log_scheduler import Background
from config import BrokerConfig
from protocol.records.compiled import has_compiled
from runtime.deferred import Deferred
from runtime.process_pool import ProcessPool
from storage.checkpoints import CLEANER_OFFSETS, read_offsets
from storage.cleaner.job import CleanResult, Resources
from storage.cleaner.selection import Cleanable, find_cleanable
from storage.errors import LogOffline
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.tasks import OffsetsTask
from storage.log_config import INT_MAX
from storage.log_manager import LogManager

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from runtime.clock import Clock
    from runtime.timers import Timer, Timers

log = logging.getLogger(__name__)

NICENESS = 10
#: Logs checked between two turns of the loop; a check takes some 10 us.
_AT_ONCE = 64
#: A change of these ends the rounds in progress; new ones begin with the new values.
_LIVE_KEYS = (
    "log.cleaner.threads",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.backoff.ms",
)


class Cleaned(msgspec.Struct):
    """The totals of all rounds so far, in bytes of records."""

    rounds: int = 0
    read_bytes: int = 0
    kept_bytes: int = 0


class CannotClean(Exception):
    """The reason why a log that should be cleaned now is not."""


class Cleaner:
    """The cleaner. Its methods belong to the event loop's thread. `uncleanable`: logs on which a round has failed.

    Args:
        make_workers: creates a pool with this number of processes.
    """

    def __init__(
        self,
        logs: LogManager,
        background: Background,
        config: BrokerConfig,
        loop: AbstractEventLoop,
        timers: Timers,
        clock: Clock,
        make_workers: Callable[[int], ProcessPool] | None = None,
    ) -> None:
        self._logs = logs
        self._background = background
        self._config = config
        self._loop = loop
        self._timers = timers
        self._clock = clock
        self._make_workers = make_workers or partial(ProcessPool, loop=loop, name="cleaner", niceness=NICENESS)
        self.uncleanable: set[PartitionLog] = set()
        self.total = Cleaned()
        #: The offset at which the dirty part of each log begins.
        self._offsets: dict[PartitionLog, int] = {}
        self._rounds: set[CleaningRound] = set()
        self._workers: ProcessPool | None = None
        self._timer: Timer | None = None
        self._looking = False
        self._look_again = False
        #: Logs to clean even if they are not due, and the result for the caller.
        self._wanted: dict[PartitionLog, Deferred[None]] = {}

    @property
    def active_count(self) -> int:
        """The number of logs that are being cleaned."""
        return len(self._rounds)

    # -- start and stop ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the cleaner if it is enabled."""
        if not self._config.get_bool("log.cleaner.enable"):
            return
        log.info("The cleaner is %s", "compiled" if has_compiled("storage.cleaner.walk") else "interpreted")
        for directory in self._logs.directories:
            if directory.is_online:
                self._read_offsets(directory)
        self._config.subscribe(_LIVE_KEYS, lambda _: self._restart())
        self._restart()

    def close(self) -> None:
        """Abort all rounds for good. Nothing of them is in the logs."""
        self._stop()

    def _restart(self) -> None:
        self._stop()
        threads = self._config.get_int("log.cleaner.threads")
        if threads:
            self._workers = self._make_workers(threads)
            self._look()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        workers, self._workers = self._workers, None
        for each in list(self._rounds):
            each.abort()
        if workers is not None:
            workers.close()

    def _read_offsets(self, directory: LogDirectory) -> None:
        try:
            remarks: list[str] = []
            offsets = read_offsets(directory.fs, f"{directory.path}/{CLEANER_OFFSETS}", remarks)
        except OSError as error:
            directory.fail(error)
            return
        for remark in remarks:
            log.warning("%s", remark)
        for key, offset in offsets.items():
            known = self._logs.logs.get(key)
            if known is not None and known.directory is directory:
                self._offsets[known] = offset

    def clean_now(self, partition_log: PartitionLog) -> Deferred[None]:
        """Clean a compacted log as far as possible, even if it is not due; resolve when nothing is left to clean.

        Fails with CannotClean if the cleaner is off, or skips this log.
        """
        wanted = self._wanted.setdefault(partition_log, Deferred())
        if self._workers is None:
            self._give_up(partition_log, "the cleaner is off")
        else:
            self._look()
        return wanted

    def _give_up(self, partition_log: PartitionLog, reason: str) -> None:
        wanted = self._wanted.pop(partition_log, None)
        if wanted is not None:
            wanted.fail(CannotClean(f"{partition_log.name}: {reason}"))

    def moved(self, old: PartitionLog, new: PartitionLog) -> None:
        """Carry a log's clean offset over to its new directory."""
        offset = self._offsets.pop(old, None)
        if offset is not None:
            self.cleaned(new, offset)

    # -- checks ------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Check all logs, some at a time, and begin with those that are due."""
        if self._looking:
            self._look_again = True
            return
        self._looking = True
        for gone in [each for each in self._offsets if each.closed]:
            del self._offsets[gone]
        self.uncleanable = {each for each in self.uncleanable if not each.closed}
        for gone in [each for each in self._wanted if each.closed or not each.directory.is_online]:
            self._give_up(gone, "the log is closed")
        self._look_on(iter(list(self._logs.logs.values())), [])

    def _look_on(self, logs: Iterator[PartitionLog], due: list[Cleanable]) -> None:
        if self._workers is None:
            self._looking = False
            return
        some = list(islice(logs, _AT_ONCE))
        for each in some:
            if each.config.compacted and each.directory.is_online and not each.closed and each.cleaning is None:
                self._look_at(each, due)
        if some:
            self._loop.call_soon(lambda: self._look_on(logs, due))
        else:
            self._begin(due)

    def _look_at(self, partition_log: PartitionLog, due: list[Cleanable]) -> None:
        now_ms = self._clock.now_ms()
        retention = self._logs.retention_task(partition_log, now_ms)
        if retention is not None:
            self._background.run([retention])
        if partition_log in self.uncleanable:
            self._give_up(partition_log, "it can not be cleaned, the broker's log says why")
            return
        offset = self._offsets.get(partition_log)
        if offset is not None and offset > partition_log.log_end_offset:
            log.warning(
                "%s was cleaned up to %d and ends at %d: it is cleaned from its start",
                partition_log.name,
                offset,
                partition_log.log_end_offset,
            )
            del self._offsets[partition_log]
            offset = None
        try:
            found = find_cleanable(partition_log, offset, now_ms)
        except LogOffline:
            return
        except OSError as error:
            partition_log.directory.fail(error)
            return
        if found is not None and (found.is_due or partition_log in self._wanted):
            due.append(found)
        elif found is None and (wanted := self._wanted.pop(partition_log, None)) is not None:
            wanted.resolve(None)

    def _begin(self, due: list[Cleanable]) -> None:
        """Clean the dirtiest logs, as many as there are free workers."""
        assert self._workers is not None
        self._looking = False
        due.sort(key=lambda each: each.ratio, reverse=True)
        for each in due[: max(0, self._workers.size - len(self._rounds))]:
            if each.log.cleaning is None and not each.log.closed:
                begun = CleaningRound(each, self._resources(), self._logs, self._background, self._clock, rounds=self)
                self._rounds.add(begun)
                begun.begin(self._workers)
        if self._look_again:
            self._look_again = False
            self._look()
        elif self._timer is None or not self._timer.active:
            backoff_ms = max(1, self._config.get_int("log.cleaner.backoff.ms"))
            self._timer = self._timers.call_later(backoff_ms, self._look)

    def _resources(self) -> Resources:
        """Return the resources of each worker."""
        config = self._config
        threads = config.get_int("log.cleaner.threads")
        return Resources(
            memory_bytes=min(config.get_int("log.cleaner.dedupe.buffer.size") // threads, INT_MAX),
            load_factor=config.get_float("log.cleaner.io.buffer.load.factor"),
            io_buffer_bytes=config.get_int("log.cleaner.io.buffer.size") // threads,
            bytes_per_second=config.get_float("log.cleaner.io.max.bytes.per.second") / threads,
        )

    # -- results of rounds -------------------------------------------------------------------------------------------

    def done(self, result: CleanResult) -> None:
        """Add the totals of a completed round."""
        self.total.rounds += 1
        self.total.read_bytes += result.read_bytes
        self.total.kept_bytes += result.kept_bytes

    def ended(self, ended: CleaningRound) -> None:
        """Forget a round that has ended, and begin others."""
        self._rounds.discard(ended)
        if self._workers is not None:
            self._look()

    def refused(self, partition_log: PartitionLog) -> None:
        """Skip a log that cannot be cleaned from now on."""
        self.uncleanable.add(partition_log)

    def cleaned(self, partition_log: PartitionLog, end_offset: int) -> None:
        """Record that all records below `end_offset` are clean."""
        self._offsets[partition_log] = end_offset
        directory = partition_log.directory
        offsets = {
            (each.topic, each.partition): offset
            for each, offset in self._offsets.items()
            if each.directory is directory and not each.closed
        }
        self._background.run([OffsetsTask(directory, CLEANER_OFFSETS, offsets)])
