"""Select the logs to clean and their range of offsets, by the rules of Apache Kafka 4.3.

The dirty part begins where the last round ended (cleaner-offset-checkpoint). The cleaner skips the active segment,
records beyond the last stable offset, and segments with records younger than min.compaction.lag.ms. A log is due if the
dirty share of its bytes is above min.cleanable.dirty.ratio, or if its oldest dirty record is older than
max.compaction.lag.ms. The decision uses values in memory and reads the first batch of each segment once. No function
here changes a log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from storage.cleaner.job import CleanJob, LastRecord, Resources, SourceSegment
from storage.log.partition_log import PartitionLog
from storage.log_config import LONG_MAX
from storage.segment.segment import Segment


class Cleanable(NamedTuple):
    """A log with something to clean. `ratio` is the dirty share of the bytes up to `end_offset`.

    `is_overdue`: its oldest dirty record is older than max.compaction.lag.ms.
    """

    log: PartitionLog
    first_dirty_offset: int
    end_offset: int
    ratio: float
    is_overdue: bool

    @property
    def is_due(self) -> bool:
        return self.is_overdue or self.ratio > self.log.config.min_cleanable_dirty_ratio

    def job(self, resources: Resources, now_ms: int) -> CleanJob:
        """Return the job that cleans it, for a worker process."""
        log = self.log
        sources = tuple(
            SourceSegment(
                segment.base_offset,
                segment.size_bytes,
                index_bytes=segment.offset_index.size_bytes,
                time_index_bytes=segment.time_index.size_bytes,
            )
            for segment in log.segments
            if segment.base_offset < self.end_offset
        )
        producers = {
            producer_id: LastRecord(entry.producer_epoch, entry.last_offset if entry.batches else None)
            for producer_id, entry in log.producer_state.producers.items()
        }
        return CleanJob(
            directory=log.path,
            segments=sources,
            first_dirty_offset=self.first_dirty_offset,
            end_offset=self.end_offset,
            transaction_indexes=tuple(each.txn_index.path for each in log.segments if each.txn_index.may_have_any),
            producers=producers,
            config=log.config,
            now_ms=now_ms,
            resources=resources,
        )


def first_dirty_offset(log: PartitionLog, checkpoint: int | None) -> int:
    """Return where the dirty part of a log begins. A checkpoint outside the log is ignored."""
    if checkpoint is None or not log.log_start_offset <= checkpoint <= log.log_end_offset:
        return log.log_start_offset
    return checkpoint


def find_cleanable(log: PartitionLog, checkpoint: int | None, now_ms: int) -> Cleanable | None:
    """Return what can be cleaned in a log, or None. Raises OSError."""
    closed = list(log.segments)[:-1]
    first_dirty = first_dirty_offset(log, checkpoint)
    dirty = [segment for segment in closed if segment.base_offset >= first_dirty]
    index = log.segments.floor(first_dirty)
    if 0 <= index < len(closed) and closed[index].base_offset < first_dirty:
        dirty.insert(0, closed[index])
    end = _first_uncleanable(log, dirty, first_dirty, now_ms)
    dirty = [segment for segment in dirty if segment.base_offset < end]
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    total = sum(segment.size_bytes for segment in closed if segment.base_offset < end)
    if not dirty_bytes or end <= first_dirty:
        return None
    return Cleanable(log, first_dirty, end, dirty_bytes / total, _is_overdue(log, dirty, now_ms))


def _first_uncleanable(log: PartitionLog, dirty: list[Segment], first_dirty: int, now_ms: int) -> int:
    """Return the base offset of the first segment that must not be cleaned."""
    end = min(log.active_segment.base_offset, log.last_stable_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in dirty:
            if segment.base_offset >= end:
                break
            if segment.largest_timestamp > now_ms - lag_ms:
                end = segment.base_offset
                break
    end = max(end, first_dirty)
    # Only whole segments are cleaned, so the one that contains the offset is not.
    return min(log.segments[log.segments.floor(end)].base_offset, log.active_segment.base_offset)


def _is_overdue(log: PartitionLog, dirty: Iterable[Segment], now_ms: int) -> bool:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms >= LONG_MAX:
        return False
    return any(0 < segment.first_timestamp < now_ms - lag_ms for segment in dirty)
