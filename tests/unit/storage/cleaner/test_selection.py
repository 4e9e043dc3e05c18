"""Which logs are due for cleaning, and their ranges."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.cleaner.selection import find_cleanable, first_dirty_offset
from storage.log.partition_log import PartitionLog
from storage.log_config import LogConfig
from tests.support.logs import T0, append, batch, open_log

COMPACT = frozenset({"compact"})


def log_of(root: Path, *, segments: int = 4, **values: object) -> PartitionLog:
    """Return a log with segments of ten records, one second apart, and an active segment."""
    log = open_log(root, LogConfig(cleanup_policy=COMPACT, **values))  # type: ignore[arg-type]
    for number in range(segments):
        for _ in range(10):
            append(log, batch(b"v", key=b"k", timestamp=T0 + 1000 * number), T0 + 1000 * number)
        log.roll(log.log_end_offset, T0 + 1000 * number)
    append(log, batch(b"v", key=b"k", timestamp=T0 + 1000 * segments))
    return log


def test_all_but_the_active_segment(tmp_path: Path) -> None:
    """S15.12: the active segment is never cleaned."""
    found = find_cleanable(log_of(tmp_path), None, T0)
    assert found is not None
    assert (found.first_dirty_offset, found.end_offset, found.ratio) == (0, 40, 1.0)
    assert found.is_due


def test_ratio_is_dirty_bytes_by_cleanable_bytes(tmp_path: Path) -> None:
    """S15.10: a log is due above the ratio, not at it."""
    log = log_of(tmp_path, min_cleanable_dirty_ratio=0.5)
    found = find_cleanable(log, 20, T0)
    assert found is not None
    assert found.ratio == 0.5
    assert not found.is_due
    found = find_cleanable(log, 19, T0)  # a round that ended inside a segment: the whole segment counts
    assert found is not None
    assert found.ratio == 0.75
    assert found.is_due
    assert find_cleanable(log, 40, T0) is None
    assert find_cleanable(log, 41, T0) is None


def test_young_segments_wait(tmp_path: Path) -> None:
    """min.compaction.lag.ms excludes everything from the first segment with a too young record on."""
    log = log_of(tmp_path, min_compaction_lag_ms=1500)
    found = find_cleanable(log, None, T0 + 2500)
    assert found is not None
    assert found.end_offset == 20
    assert find_cleanable(log, None, T0 + 1499) is None


def test_old_dirty_record_makes_the_log_due(tmp_path: Path) -> None:
    """max.compaction.lag.ms applies to the first record of dirty segments."""
    log = log_of(tmp_path, max_compaction_lag_ms=5000, min_cleanable_dirty_ratio=1.0)
    found = find_cleanable(log, 10, T0 + 6000)
    assert found is not None
    assert not found.is_due
    found = find_cleanable(log, 10, T0 + 6001)
    assert found is not None
    assert found.is_due


@pytest.mark.parametrize(("checkpoint", "expected"), [(None, 5), (4, 5), (5, 5), (12, 12), (41, 41), (42, 5)])
def test_checkpoint_counts_only_within_the_log(checkpoint: int | None, expected: int, tmp_path: Path) -> None:
    """Below the log start, or beyond the end after damage, the whole log is dirty."""
    log = log_of(tmp_path)
    log.delete_records(5)
    assert first_dirty_offset(log, checkpoint) == expected
