"""Which logs have to be forced to the disk: asked for, overdue, or after a roll. Owned by the event loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from storage.checkpoints import TopicPartition
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.tasks import FlushTask
from storage.log_config import LONG_MAX


def full_flush(log: PartitionLog, now_ms: int) -> FlushTask | None:
    """Force all of a log to the disk; None when it is there."""
    if log.recovery_point >= log.log_end_offset and not log.unsynced:
        return None
    return FlushTask(log, now_ms, with_active=True)


def overdue_flushes(logs: Iterable[PartitionLog], now_ms: int) -> Iterator[FlushTask]:
    """Logs whose flush.ms is over. One that is being forced to the disk just now has its turn the next time."""
    for log in list(logs):
        if (
            log.config.flush_ms < LONG_MAX
            and log.recovery_point < log.log_end_offset
            and now_ms - log.last_flush_ms >= log.config.flush_ms
            and log.directory.is_online
            and not log.closed
            and not log.flushes
        ):
            yield FlushTask(log, now_ms, with_active=True)


def flushes_of_small_files(
    logs: Mapping[TopicPartition, PartitionLog], directory: LogDirectory, now_ms: int
) -> Iterator[FlushTask]:
    """Logs of a directory with a rolled segment or small files that are not on the disk yet."""
    for waiting in list(directory.needs_flush):
        # A log that is not of `logs` has an owner, who alone forces it to the disk: two at a time would
        # believe each that it waits for all.
        ours = logs.get((waiting.topic, waiting.partition)) is waiting
        if ours and waiting in directory.needs_flush and directory.is_online and not waiting.flushes:
            yield FlushTask(waiting, now_ms, with_active=False)
