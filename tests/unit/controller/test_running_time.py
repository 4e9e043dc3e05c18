"""The clock of brokers' sessions, in a controller that is paused."""

from __future__ import annotations

import pytest

from controller.running_time import INTERVAL_MS, RunningTime


class Watch:
    now_ms = 50_000

    def __call__(self) -> int:
        return self.now_ms


def test_time_passes_while_the_process_runs() -> None:
    """Calls may be late by up to an interval: a loaded machine is no pause."""
    watch = Watch()
    time = RunningTime(watch)
    for late_ms in (0, 10, INTERVAL_MS):
        watch.now_ms += INTERVAL_MS + late_ms
        time.note()
        assert time.ms() == watch.now_ms


def test_a_pause_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """No more than an interval of it counts, and the log has a line about it."""
    watch = Watch()
    time = RunningTime(watch)
    watch.now_ms += 20_000
    time.note()
    assert time.ms() == 50_000 + INTERVAL_MS
    watch.now_ms += INTERVAL_MS
    time.note()
    assert time.ms() == 50_000 + 2 * INTERVAL_MS
    assert [record.getMessage() for record in caplog.records] == [
        "The controller was paused for about 19000 ms. Sessions of brokers are longer by that"
    ]
