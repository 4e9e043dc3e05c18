"""OutageLog: a long outage is a few lines, and its end is one."""

from __future__ import annotations

import logging

import pytest

from runtime.outage_log import REPEAT_MS, OutageLog


class Stage:
    """An outage log and its clock."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        self.now_ms = 5_000
        self._caplog = caplog
        self.outage = OutageLog(logging.getLogger("test"), "Fetches", lambda: self.now_ms)

    def lines(self) -> list[str]:
        """Return the lines since the last call."""
        lines = self._caplog.messages
        self._caplog.clear()
        return lines


@pytest.fixture
def stage(caplog: pytest.LogCaptureFixture) -> Stage:
    return Stage(caplog)


def test_an_outage_has_a_first_line_and_a_last_one(stage: Stage) -> None:
    stage.outage.worked()
    assert stage.lines() == []
    for _ in range(4):
        stage.outage.failed("refused")
        assert stage.outage.lasts
        stage.now_ms += 500
    stage.outage.worked()
    stage.outage.worked()
    assert not stage.outage.lasts
    assert stage.lines() == ["Fetches fail: refused. They are retried", "Fetches succeed again after 2.0 s"]


def test_a_long_outage_is_repeated_each_half_minute(stage: Stage) -> None:
    """The line has the latest reason: it may be another one than at the beginning."""
    for second in range(65):
        stage.outage.failed("refused" if second < 50 else "timed out")
        stage.now_ms += 1_000
    assert stage.lines() == [
        "Fetches fail: refused. They are retried",
        "Fetches have failed for 30.0 s (31 failures): refused. They are retried",
        "Fetches have failed for 60.0 s (61 failures): timed out. They are retried",
    ]


def test_advice_follows_the_reason(stage: Stage) -> None:
    """It belongs to a failure: not each of them has the same remedy."""
    stage.outage.failed("refused", "Check that the broker runs")
    assert stage.lines() == ["Fetches fail: refused. They are retried. Check that the broker runs"]


def test_an_outage_lasts_while_one_source_fails(stage: Stage) -> None:
    stage.outage.failed("refused", source="heartbeat")
    stage.outage.failed("no leader", source="metadata")
    stage.outage.worked("metadata")
    assert stage.lines() == ["Fetches fail: refused. They are retried"]
    stage.outage.worked("heartbeat")
    assert stage.lines() == ["Fetches succeed again after 0.0 s"]


def test_short_outages_in_a_row_are_bounded(stage: Stage) -> None:
    """A request that fails every other time does not fill the log."""
    for _ in range(20):
        stage.outage.failed("refused")
        stage.outage.worked()
        stage.now_ms += 1_000
    assert len(stage.lines()) == 6
    stage.now_ms += REPEAT_MS
    stage.outage.failed("refused")
    assert len(stage.lines()) == 1


def test_an_outage_without_room_is_logged_once_there_is_some(stage: Stage) -> None:
    """It lasts, so an operator must see it."""
    for _ in range(3):
        stage.outage.failed("refused")
        stage.outage.worked()
    stage.lines()
    stage.now_ms += 10_000
    stage.outage.failed("refused")
    assert stage.lines() == []
    stage.now_ms += REPEAT_MS - 10_000
    stage.outage.failed("refused")
    assert stage.lines() == ["Fetches have failed for 20.0 s (2 failures): refused. They are retried"]
    stage.now_ms += 1_000
    stage.outage.worked()
    assert stage.lines() == ["Fetches succeed again after 21.0 s"]
