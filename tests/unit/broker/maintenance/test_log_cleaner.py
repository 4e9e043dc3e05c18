"""The log cleaner: which logs it cleans and when, results of a round, and what ends one."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from storage.checkpoints import CLEANER_OFFSETS
from storage.fetch_slice import FetchSlice
from storage.log_config import LogConfig
from tests.support.cleaner_stage import COMPACT, CleanerStage, fill
from tests.support.cleaning import consume


def test_dirty_log_is_cleaned_and_checkpointed(stage: CleanerStage, caplog: pytest.LogCaptureFixture) -> None:
    """S15.1; cleaner-offset-checkpoint has Kafka's format. One line has the result, the first one the
    implementation.
    """
    caplog.set_level(logging.INFO, "broker.maintenance.log_cleaner")
    log = stage.log()
    fill(log)
    end = log.active_segment.base_offset
    stage.start()
    assert [record.value for record in consume(log)] == [b"%d" % number for number in range(end - 2, 20)]
    assert stage.checkpoint() == [f"t 0 {end}"]
    assert log.cleaning is None
    begun, line = caplog.messages
    assert begun == "The cleaner is interpreted", "tests run the Python source"
    kept = r"kept 2 of \d+ records \(2 keys\), \d+ of \d+ bytes, \d+ of \d+ segments"
    assert re.fullmatch(f"Cleaned t-0, offsets 0 to {end}, in 0 ms: {kept}", line)
    assert sorted(path.suffix for path in Path(log.path).glob("*.*") if path.suffix in (".swap", ".cleaned")) == []
    assert stage.pools[0].submitted == 1


def test_readers_of_a_replaced_segment_continue(stage: CleanerStage) -> None:
    """Rule H1: a slice that is being sent keeps its file open."""
    log = stage.log()
    fill(log)
    part = log.read(0, 1000, log.log_end_offset)
    assert isinstance(part, FetchSlice)
    before = part.read()
    stage.start()
    assert log.segments[0].size_bytes == 0
    stage.background.run(stage.logs.removal_tasks(stage.clock.now_ms()))
    assert not list(Path(log.path).glob("*.deleted"))
    assert part.read() == before


def test_log_below_the_dirty_ratio_waits(stage: CleanerStage) -> None:
    """S15.10: dirty bytes divided by all cleanable bytes, above min.cleanable.dirty.ratio."""
    log = stage.log(config=LogConfig(cleanup_policy=COMPACT.cleanup_policy, segment_bytes=300, file_delete_delay_ms=0))
    fill(log, 40, keys=40)
    stage.start()
    end = log.active_segment.base_offset
    assert stage.checkpoint() == [f"t 0 {end}"]
    fill(log, 8, keys=8)
    stage.loop.advance(15_000)
    assert stage.checkpoint() == [f"t 0 {end}"]
    fill(log, 60, keys=60)
    stage.loop.advance(15_000)
    assert stage.checkpoint() == [f"t 0 {log.active_segment.base_offset}"]


def test_logs_are_checked_again_after_the_backoff(stage: CleanerStage) -> None:
    """S15.9: log.cleaner.backoff.ms."""
    log = stage.log()
    stage.start()
    fill(log)
    stage.loop.advance(14_999)
    assert stage.checkpoint() == []
    stage.loop.advance(1)
    assert stage.checkpoint() == [f"t 0 {log.active_segment.base_offset}"]


def test_dirtiest_log_is_first(tmp_path: Path) -> None:
    """As many at a time as there are cleaners (S15.4); the others follow without a pause."""
    stage = CleanerStage(tmp_path)
    stage.held = True
    clean_part = stage.log("partly", LogConfig(cleanup_policy=COMPACT.cleanup_policy, segment_bytes=300))
    fill(clean_part, 8, keys=8)
    stage.start()
    stage.pools[0].release()
    stage.loop.settle()
    fill(clean_part, 20, keys=20)
    all_dirty = stage.log("all", COMPACT)
    fill(all_dirty)
    stage.loop.advance(15_000)
    assert all_dirty.cleaning is not None
    assert clean_part.cleaning is None
    stage.pools[0].release()
    stage.loop.settle()
    assert clean_part.cleaning is not None
    stage.pools[0].release()
    assert stage.pools[0].submitted == 3
    stage.cleaner.close()


def test_disabled_cleaner_does_nothing(tmp_path: Path) -> None:
    """S15.2: log.cleaner.enable=false."""
    stage = CleanerStage(tmp_path, **{"log.cleaner.enable": False})
    log = stage.log()
    fill(log)
    stage.start()
    stage.loop.advance(100_000)
    assert stage.pools == []
    assert len(consume(log)) == 20


def test_compact_delete_applies_both_policies(stage: CleanerStage) -> None:
    """S14.2, S14.14: the cleaner deletes expired segments where the policy includes delete. Other policies are
    skipped.
    """
    keep, both = (
        stage.log("keep", LogConfig(segment_bytes=300)),
        stage.log(
            "both",
            LogConfig(cleanup_policy=frozenset({"compact", "delete"}), segment_bytes=300, retention_ms=1000),
        ),
    )
    fill(keep)
    fill(both, now_ms=stage.clock.now_ms() - 2000)
    fill(both, now_ms=stage.clock.now_ms())
    stage.start()
    assert len(consume(keep)) == 20
    assert both.log_start_offset >= 16
    assert len(consume(both)) < 10
    keep.config = COMPACT
    stage.loop.advance(15_000)
    assert len(consume(keep)) < 10


def test_uncleanable_log_is_logged_once_and_skipped(stage: CleanerStage, caplog: pytest.LogCaptureFixture) -> None:
    """Others are cleaned."""
    bad, good = stage.log("bad"), stage.log("good")
    fill(bad)
    fill(good)
    path = Path(bad.segments[0].log.path)
    data = bytearray(path.read_bytes())
    data[65] ^= 1
    path.write_bytes(data)
    stage.start()
    stage.loop.advance(60_000)
    warnings = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert warnings[0].startswith("bad-0 cannot be cleaned and is left alone from now on: ")
    assert str(path) in warnings[0]
    assert stage.cleaner.uncleanable == {bad}
    assert path.read_bytes() == data
    assert len(consume(good)) < 10
    stage.logs.delete("bad", 0, "0" * 32, stage.clock.now_ms())
    stage.loop.advance(15_000)
    assert stage.cleaner.uncleanable == set()


def test_deleted_topic_kills_its_worker(tmp_path: Path) -> None:
    """A new topic of that name may get the directory at once."""
    stage = CleanerStage(tmp_path)
    stage.held = True
    log = stage.log()
    fill(log)
    stage.start()
    assert log.cleaning is not None
    stage.logs.delete("t", 0, "0" * 32, stage.clock.now_ms())
    again = stage.log()
    fill(again, 4)
    stage.loop.settle()
    assert log.cleaning is None
    stage.pools[0].release()
    assert len(consume(again)) == 4
    assert stage.checkpoint() == []
    stage.cleaner.close()


def test_log_changed_meanwhile_keeps_its_segments(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """For example if its policy changed. The worker's output is deleted."""
    caplog.set_level(logging.INFO, "broker.maintenance.log_cleaner")
    stage = CleanerStage(tmp_path)
    stage.held = True
    log = stage.log()
    fill(log)
    stage.start()
    log.config = LogConfig(segment_bytes=300)
    stage.background.held = True
    stage.pools[0].release()
    stage.loop.settle()
    assert len(consume(log)) == 20
    assert caplog.messages[1:] == ["t-0 has changed while it was cleaned: it stays as it is for now"]
    assert log.cleaning is not None
    log.cleaning()  # a move that needs the log retries later: its files are being removed
    assert log.cleaning is not None
    stage.background.release()
    assert not list(Path(log.path).glob("*.cleaned"))
    assert log.cleaning is None
    stage.cleaner.close()


def test_dead_worker_is_no_fault_of_the_log(tmp_path: Path) -> None:
    """The next check tries again."""
    stage = CleanerStage(tmp_path)
    stage.held = True
    log = stage.log()
    fill(log)
    stage.start()
    stage.pools[0].die()
    stage.pools[0].held = False
    assert log.cleaning is None
    stage.loop.advance(15_000)
    assert stage.checkpoint() == [f"t 0 {log.active_segment.base_offset}"]
    stage.cleaner.close()


def test_io_error_of_a_worker_takes_the_directory_offline(tmp_path: Path) -> None:
    """Rule D3."""
    stage = CleanerStage(tmp_path)
    stage.held = True
    log = stage.log()
    fill(log)
    stage.start()
    Path(log.segments[0].log.path).unlink()
    stage.pools[0].release()
    assert log.directory.failure is not None


def test_retention_waits_for_the_cleaner(tmp_path: Path) -> None:
    """They never change the segments of a log at the same time."""
    stage = CleanerStage(tmp_path)
    stage.held = True
    log = stage.log("both", LogConfig(cleanup_policy=frozenset({"compact", "delete"}), segment_bytes=300))
    fill(log)
    stage.start()
    log.config = LogConfig(cleanup_policy=frozenset({"compact", "delete"}), segment_bytes=300, retention_bytes=0)
    assert list(stage.logs.retention_tasks(stage.clock.now_ms())) == []
    stage.pools[0].release()
    stage.loop.settle()
    assert log.log_start_offset > 0
    stage.cleaner.close()


def test_changed_settings_restart_the_cleaner(tmp_path: Path) -> None:
    """Rounds in progress end. Shares are those of the new number of cleaners (S15.5-S15.8)."""
    stage = CleanerStage(tmp_path)
    stage.held = True
    log = stage.log()
    fill(log)
    stage.start()
    stage.held = False
    stage.change(**{"log.cleaner.threads": 2, "log.cleaner.dedupe.buffer.size": 6 << 20})
    stage.loop.settle()
    assert [(pool.size, pool.closed) for pool in stage.pools] == [(1, True), (2, False)]
    assert stage.checkpoint() == [f"t 0 {log.active_segment.base_offset}"]
    assert stage.cleaner._resources().memory_bytes == 3 << 20
    assert stage.cleaner._resources().io_buffer_bytes == 256 << 10
    stage.cleaner.close()
    assert stage.pools[1].closed


def test_checkpoint_is_read_at_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Clean segments are not cleaned again. An offset behind the log's end is ignored."""
    first = CleanerStage(tmp_path)
    fill(first.log("t"))
    fill(first.log("u"))
    first.start()
    first.cleaner.close()
    first.logs.close(first.clock.now_ms())
    path = first.root / CLEANER_OFFSETS
    path.write_text(path.read_text().replace("u 0 ", "u 0 9"))
    second = CleanerStage(tmp_path)
    second.start()
    assert second.pools[0].submitted == 1
    (warning,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert warning.startswith("u-0 was cleaned up to 9")
    assert len(second.checkpoint()) == 2
    second.cleaner.close()
    second.logs.close(second.clock.now_ms())


def test_abort_during_a_swap_completes_the_swap(tmp_path: Path) -> None:
    """Later segments are unchanged, and the next round cleans them."""
    stage = CleanerStage(tmp_path)
    config = LogConfig(cleanup_policy=COMPACT.cleanup_policy, segment_bytes=300, file_delete_delay_ms=0)
    log = stage.log(config=config)
    fill(log, 40, keys=40)
    stage.background.held = True
    stage.start()
    assert log.cleaning is not None
    segments = log.segments.base_offsets
    stage.cleaner.close()
    assert log.cleaning is not None
    for _ in range(4):
        stage.background.release()
    assert log.cleaning is None
    assert log.segments.base_offsets == segments
    assert stage.checkpoint() == []
    assert not list(Path(log.path).glob("*.swap"))
    assert [record.offset for record in consume(log)] == list(range(40))
