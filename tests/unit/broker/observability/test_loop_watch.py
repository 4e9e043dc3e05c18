"""A blocked event loop is logged with its stack, and its lag is counted."""

from __future__ import annotations

import logging
import threading

import pytest

from broker.observability.loop_watch import BEAT_S, LAG_BOUNDS_S, LoopWatch
from tests.support.fake_loop import FakeLoop


class Watched:
    """A watch whose clock and whose thread's checks are run by the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = FakeLoop()
        monkeypatch.setattr(threading.Thread, "start", lambda thread: None)
        self.watch = LoopWatch(self.loop, lambda: self.loop.clock.monotonic_ms() / 1000)
        self.watch.start()

    def turn(self, seconds: float) -> None:
        """Let the loop turn for this long, with the thread checking."""
        for _ in range(round(seconds / BEAT_S)):
            self.loop.advance(int(BEAT_S * 1000))
            self.watch.look()

    def stand_still(self, seconds: float) -> None:
        """Block the loop for this long, with the thread checking."""
        for _ in range(round(seconds / BEAT_S)):
            self.loop.clock.advance(int(BEAT_S * 1000))
            self.watch.look()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def test_turning_loop_is_not_logged(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    watched.turn(10)

    assert not caplog.records
    assert watched.watch.lag_counts == [40] + [0] * len(LAG_BOUNDS_S)
    assert (watched.watch.stalls, watched.watch.lag_sum_s) == (0, 0)


def test_stall_is_logged_once_with_the_stack(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    """The stack is that of the loop's thread: here, the test."""
    watched.turn(1)
    watched.stand_still(4)

    (logged,) = caplog.records
    assert logged.levelno == logging.WARNING
    assert logged.getMessage().startswith("The event loop was blocked for 1.2 s, at\n")
    assert "in stand_still" in logged.getMessage()

    watched.turn(1)
    assert caplog.records[1].getMessage() == "The event loop runs again after 3.8 s"
    assert watched.watch.stalls == 1
    watched.stand_still(2)
    assert len(caplog.records) == 3


def test_short_delays_are_counted_but_not_logged(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    """By the delay of the heartbeat."""
    watched.turn(1)
    watched.stand_still(0.75)
    watched.turn(0.25)

    assert not caplog.records
    assert watched.watch.lag_counts[LAG_BOUNDS_S.index(0.5)] == 1
    assert watched.watch.lag_sum_s == pytest.approx(0.5)


def test_stopped_process_logs_no_stack(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    """After SIGSTOP, or on a machine that slept, the thread was away as long as the loop."""
    watched.turn(1)
    watched.loop.clock.advance(60_000)
    watched.watch.look()

    assert not caplog.records


def test_idle_time_is_without_the_threads_cpu_time(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure covers the last half minute."""
    assert watched.watch.idle == 1
    computed = iter(range(10_000))
    monkeypatch.setattr("broker.observability.loop_watch.time.thread_time", lambda: next(computed) * 0.05)
    watched.turn(60)

    assert watched.watch.idle == pytest.approx(0.8)
    assert watched.watch.cpu_s == pytest.approx(239 * 0.05)


def test_stopped_watch_does_not_check_the_loop(watched: Watched) -> None:
    watched.watch.stop()
    watched.turn(2)

    assert sum(watched.watch.lag_counts) == 0


def test_thread_ends_when_the_watch_is_stopped() -> None:
    """The real thread."""
    watch = LoopWatch(FakeLoop())
    watch.start()
    (thread,) = [each for each in threading.enumerate() if each.name == "loop-watch"]
    watch.stop()
    thread.join(60)

    assert not thread.is_alive()
