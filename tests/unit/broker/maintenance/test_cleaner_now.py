"""Cleaning of a log on demand."""

from __future__ import annotations

import pytest

from broker.maintenance.log_cleaner import CannotClean
from storage.log_config import LogConfig
from tests.support.cleaner_stage import CleanerStage, fill
from tests.support.cleaning import consume

NEVER_DUE = LogConfig(
    cleanup_policy=frozenset({"compact"}), segment_bytes=300, min_cleanable_dirty_ratio=1.0, file_delete_delay_ms=0
)


def test_log_is_cleaned_on_demand_once(stage: CleanerStage) -> None:
    """All but the active segment; the caller learns when it is done."""
    log = stage.log(config=NEVER_DUE)
    fill(log, 40, keys=1)
    stage.start()
    assert stage.checkpoint() == []
    done = stage.cleaner.clean_now(log)
    stage.loop.settle()
    assert done.result() is None
    end = log.active_segment.base_offset
    assert stage.checkpoint() == [f"t 0 {end}"]
    assert [record.offset for record in consume(log) if record.offset < end] == [end - 1]
    again = stage.cleaner.clean_now(log)
    stage.loop.settle()
    assert again.done
    assert stage.pools[0].submitted == 1


def test_impossible_cleaning_is_reported(stage: CleanerStage) -> None:
    """The cleaner is disabled, the log is excluded, or it is deleted meanwhile."""
    log = stage.log()
    fill(log)
    with pytest.raises(CannotClean, match="the cleaner is off"):
        stage.cleaner.clean_now(log).result()
    stage.start()
    stage.cleaner.refused(log)
    refused = stage.cleaner.clean_now(log)
    stage.loop.settle()
    with pytest.raises(CannotClean, match="can not be cleaned"):
        refused.result()
    stage.pools[0].held = True
    other = stage.log("other")
    fill(other)
    gone = stage.cleaner.clean_now(other)
    stage.loop.settle()
    stage.logs.delete("other", 0, "u", stage.clock.now_ms())
    stage.loop.settle()
    with pytest.raises(CannotClean, match="closed"):
        gone.result()
