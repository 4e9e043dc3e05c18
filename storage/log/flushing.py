"""Select the logs to flush: on request, after flush.ms, or after a roll. Called on the event loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from storage.checkpoints import TopicPartition
from storage.log.directory import LogDirectory
from storage.log.partition_log import PartitionLog
from storage.log.tasks import FlushTask
from storage.log_config import LONG_MAX


def full_flush(log: PartitionLog, now_ms: int) -> FlushTask | None:
    """Return a task that forces the whole log to the disk, or None if it is there already."""
    if log.recovery_point >= log.log_end_offset and not log.unsynced:
        return None
    return FlushTask(log, now_ms, with_active=True)


def overdue_flushes(logs: Iterable[PartitionLog], now_ms: int) -> Iterator[FlushTask]:
    """Yield flushes of the logs whose flush.ms has passed, except those with a flush under way."""
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


def small_file_flushes(
    logs: Mapping[TopicPartition, PartitionLog], directory: LogDirectory, now_ms: int
) -> Iterator[FlushTask]:
    """Yield flushes of the logs of a directory whose rolled segments or small files are not on the disk yet."""
    for waiting in list(directory.needs_flush):
        # A log that is not in `logs` is flushed by its owner alone. With two flushes at a time, each would report
        # success without waiting for the files of the other.
        log = logs.get((waiting.topic, waiting.partition))
        if log is waiting and waiting in directory.needs_flush and directory.is_online and not log.flushes:
            yield FlushTask(log, now_ms, with_active=False)
