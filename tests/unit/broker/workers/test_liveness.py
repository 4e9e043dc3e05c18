"""Heartbeats that detect a worker whose loop is blocked."""

from __future__ import annotations

from typing import Any

from broker.workers.liveness import BEAT_S, BEATS_WITHOUT_ANSWER, LivenessMonitor
from broker.workers.messages import LivenessCheck
from runtime.deferred import Deferred
from tests.support.fake_loop import FakeLoop

BEAT_MS = int(BEAT_S * 1000)


class Process:
    """The process at the other end; `answers` is whether it answers."""

    def __init__(self) -> None:
        self.answers = True
        self.asked: list[Deferred[None]] = []

    def ask(self, message: object) -> Deferred[None]:
        assert message == LivenessCheck()
        self.asked.append(Deferred())
        if self.answers:
            self.asked[-1].resolve(None)
        return self.asked[-1]


class Observed:
    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.link: Any = Process()
        self.silences = 0
        self.pulse = LivenessMonitor(self.loop, self.link, self._silent)
        self.pulse.start()

    def _silent(self) -> None:
        self.silences += 1


def test_silence_is_reported_once() -> None:
    """After a number of heartbeats. A worker that has not answered gets no further one."""
    seen = Observed()
    seen.loop.advance(10 * BEAT_MS)
    assert (len(seen.link.asked), seen.silences) == (10, 0)
    seen.link.answers = False
    seen.loop.advance(BEATS_WITHOUT_ANSWER * BEAT_MS)
    assert (len(seen.link.asked), seen.silences) == (11, 0)
    seen.loop.advance(BEAT_MS)
    assert (len(seen.link.asked), seen.silences) == (11, 1)
    seen.loop.advance(100 * BEAT_MS)
    assert (len(seen.link.asked), seen.silences) == (11, 1)


def test_late_answer_resets_the_count() -> None:
    seen = Observed()
    seen.link.answers = False
    for _ in range(3):
        seen.loop.advance(BEATS_WITHOUT_ANSWER * BEAT_MS)
        seen.link.asked[-1].resolve(None)
    assert seen.silences == 0


def test_no_heartbeat_after_the_end() -> None:
    seen = Observed()
    seen.pulse.stop()
    seen.loop.advance(100 * BEAT_MS)
    assert seen.link.asked == []
