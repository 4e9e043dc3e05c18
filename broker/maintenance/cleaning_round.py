"""One round of cleaning of one log: a worker process cleans it, then its segments are replaced one by one.

The result is swapped in if the log has not changed otherwise (storage/cleaner/swap.py), and discarded if it has.
An I/O error takes the directory offline, as everywhere.
"""

from __future__ import annotations

import logging
from typing import Protocol

from broker.maintenance.log_scheduler import Background
from runtime.clock import Clock
from runtime.deferred import Deferred
from runtime.process_pool import PoolProcessDied, ProcessPool
from storage.cleaner.job import CleanResult, Resources
from storage.cleaner.output import CleanedSegment
from storage.cleaner.pool_job import run_round
from storage.cleaner.selection import Cleanable
from storage.cleaner.swap import RemoveCleanedTask, still_fits
from storage.log.partition_log import PartitionLog
from storage.log_manager import LogManager

log = logging.getLogger("broker.maintenance.log_cleaner")  # both modules share one name, so that one level covers both


class Rounds(Protocol):
    """The owner of cleaning rounds, which is notified of their results."""

    def cleaned(self, partition_log: PartitionLog, end_offset: int) -> None:
        """Note that all records below `end_offset` are clean."""

    def refused(self, partition_log: PartitionLog) -> None:
        """Note that the log cannot be cleaned: it is skipped from now on."""

    def done(self, result: CleanResult) -> None:
        """Note a completed round."""

    def ended(self, ended: CleaningRound) -> None:
        """Note that a round has ended: another may begin."""


class CleaningRound:
    """The round of one log, through a worker and the background thread.

    Args:
        resources: the resources that the worker may use.
        rounds: notified of the results.
    """

    def __init__(
        self,
        cleanable: Cleanable,
        resources: Resources,
        logs: LogManager,
        background: Background,
        clock: Clock,
        rounds: Rounds,
    ) -> None:
        self._log = cleanable.log
        self._logs = logs
        self._background = background
        self._clock = clock
        self._rounds = rounds
        self._begun_ms = clock.monotonic_ms()
        self._now_ms = clock.now_ms()
        self._job = cleanable.job(resources, self._now_ms)
        self._aborted = False
        self._in_thread = False
        self._work: Deferred[CleanResult] | None = None

    def begin(self, workers: ProcessPool) -> None:
        """Give the log to a worker. Until the round has ended, nothing else changes the log."""
        self._log.cleaning = self.abort
        self._work = workers.submit(run_round, self._job)
        self._work.add_done_callback(self._on_result)

    def abort(self) -> None:
        """Kill the worker: the log is needed elsewhere, it is closed, or the cleaner stops.

        A swap of a segment, or a removal of files, that has begun is completed first: until then the round is not over.
        """
        if not self._aborted:
            self._aborted = True
            if self._work is not None and not self._in_thread:
                self._work.cancel()
                self._end()

    def _on_result(self, work: Deferred[CleanResult]) -> None:
        try:
            result = work.result()
        except PoolProcessDied as died:
            if not self._aborted:
                log.warning("%s is not cleaned now: %s", self._log.name, died)
                self._throw_away()
        except OSError as error:
            self._log.directory.fail(error)
            self._end()
        except Exception as error:
            log.warning("%s cannot be cleaned and is left alone from now on: %s", self._log.name, error)
            self._rounds.refused(self._log)
            self._end()
        else:
            if still_fits(self._log, self._job):
                self._in_thread = True
                self._swap_next(result, list(result.segments))
            else:
                log.info("%s has changed while it was cleaned: it stays as it is for now", self._log.name)
                self._throw_away()

    def _swap_next(self, result: CleanResult, left: list[CleanedSegment]) -> None:
        """Swap in one segment after the other, never two at once: recovery must know which files match."""
        if not left:
            self._log_result(result)
            self._rounds.done(result)
            self._rounds.cleaned(self._log, result.end_offset)
        if not left or self._aborted:
            self._end()
            return
        background = self._background
        first = self._logs.swap_task(self._log, left[0], self._now_ms)

        def go_on(_: Deferred[None]) -> None:
            if first.following is None:
                self._end()
            else:
                second = background.run([first.following])
                second.add_done_callback(lambda _: self._swap_next(result, left[1:]))

        background.run([first]).add_done_callback(go_on)

    def _log_result(self, result: CleanResult) -> None:
        log.info(
            "Cleaned %s, offsets %d to %d, in %d ms: "
            "kept %d of %d records (%d keys), %d of %d bytes, %d of %d segments",
            self._log.name,
            self._job.first_dirty_offset,
            result.end_offset,
            self._clock.monotonic_ms() - self._begun_ms,
            result.kept_records,
            result.read_records,
            result.keys,
            result.kept_bytes,
            result.read_bytes,
            len(result.segments),
            sum(len(each.replaced) for each in result.segments),
        )

    def _throw_away(self) -> None:
        """Remove the files that will not be swapped in."""
        if self._log.closed or not self._log.directory.is_online:
            self._end()
            return
        self._in_thread = True
        task = RemoveCleanedTask(self._log)
        self._background.run([task]).add_done_callback(lambda _: self._end())

    def _end(self) -> None:
        self._log.cleaning = None
        self._rounds.ended(self)
