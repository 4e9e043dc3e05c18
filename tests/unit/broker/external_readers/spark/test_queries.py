"""Checks of checkpoints: when they run, and their log lines."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.external_readers.spark.queries import SparkQueries
from runtime.timers import Timers
from tests.support.fake_loop import FakeLoop

RECORDED = Path(__file__).parents[4] / "data" / "spark"


class Stage:
    """Queries whose checks run when a test triggers them."""

    def __init__(self, path: Path) -> None:
        self.loop = FakeLoop()
        self.calls: list[Callable[[], None] | None] = []
        timers = Timers(self.loop, self.loop.clock)
        self.queries = SparkQueries([str(path)], 1_000, self.loop, timers, in_thread=self.calls.append)  # type: ignore[arg-type]
        self.queries.start()

    def look(self) -> None:
        call = self.calls.pop(0)
        assert call is not None
        call()
        self.loop.settle()


def test_checks_follow_each_other(tmp_path: Path) -> None:
    """The next begins an interval after the end of the last, and none begins after the stop."""
    shutil.copytree(RECORDED / "two-sources", tmp_path / "two-sources")
    stage = Stage(tmp_path)
    assert (stage.queries.is_complete, stage.queries.positions()) == (False, {})
    stage.loop.advance(5_000)
    assert len(stage.calls) == 1

    stage.look()
    assert stage.queries.is_complete
    assert stage.queries.positions()[("clicks", 0)] == 4
    assert stage.queries.name_of(("clicks", 0)) == "the query two-sources"
    assert [name for name, _ in stage.queries.readers_from_beginning(("orders", 2))] == ["the query two-sources"]
    assert (
        stage.queries.readers_from_beginning(("orders", 1)) == stage.queries.readers_from_beginning(("pages", 0)) == []
    )
    stage.loop.advance(999)
    assert not stage.calls
    stage.loop.advance(1)
    stage.look()

    stage.queries.stop()
    stage.loop.advance(5_000)
    assert stage.calls == [None]


def test_check_that_ends_after_the_stop_is_ignored(tmp_path: Path) -> None:
    """Its thread may have hung for long."""
    stage = Stage(tmp_path)
    stage.queries.stop()
    stage.look()

    assert stage.queries.found is None


def test_unreadable_checkpoint_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Again only if it was readable in between."""
    stage = Stage(tmp_path / "state")
    for _ in range(3):
        stage.look()
        stage.loop.advance(1_000)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert str(tmp_path / "state") in warnings[0]
    assert "retention.hold.max.bytes of all topics are held" in warnings[0]

    (tmp_path / "state" / "other").mkdir(parents=True)
    stage.look()
    stage.loop.advance(1_000)
    (tmp_path / "state" / "other").rmdir()  # as an unmounted volume appears
    stage.look()
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 2
