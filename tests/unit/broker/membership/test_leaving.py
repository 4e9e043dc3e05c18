"""How long a member's stop waits for its controller."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.membership.leaving import leave
from config import load
from replication.lifecycle import LifecycleState
from runtime.clock import Clock
from runtime.timers import Timers

#: Half a session, in ms.
PATIENCE_MS = 100


class Lifecycle:
    """A lifecycle whose controller answers every 20 ms, `answers` times; the last answer may let the broker go."""

    def __init__(self, clock: Clock, answers: int, *, lets_go: bool) -> None:
        self.state = LifecycleState.RUNNING
        self.answered_ms = clock.monotonic_ms()
        self.on_state: Any = None
        self._clock, self._answers, self._lets_go = clock, answers, lets_go

    def leave(self) -> None:
        self.state = LifecycleState.LEAVING
        if self._answers:
            asyncio.get_running_loop().call_later(0.02, self._answer)

    def _answer(self) -> None:
        self.answered_ms = self._clock.monotonic_ms()
        self._answers -= 1
        if self._answers:
            asyncio.get_running_loop().call_later(0.02, self._answer)
        elif self._lets_go:
            self.state = LifecycleState.ENDED
            self.on_state()


def waited_ms(answers: int, *, lets_go: bool = False, most_ms: int = 30_000) -> int:
    keys = {"broker.session.timeout.ms": 2 * PATIENCE_MS, "pybroker.shutdown.timeout.ms": 2 * most_ms}
    config = load(overrides={key: str(value) for key, value in keys.items()})
    clock = Clock()

    async def run() -> int:
        loop = asyncio.get_running_loop()
        lifecycle: Any = Lifecycle(clock, answers, lets_go=lets_go)
        began = clock.monotonic_ms()
        await leave(lifecycle, config, clock, Timers(loop, clock), loop)
        return clock.monotonic_ms() - began

    return asyncio.run(run())


def test_a_dead_controller_is_waited_for_half_a_session(caplog: pytest.LogCaptureFixture) -> None:
    """Longer gains nothing: it fences the broker when it is back, and the session has ended."""
    assert PATIENCE_MS <= waited_ms(0) < 20_000
    assert "No controller has completed the controlled shutdown" in caplog.text


def test_each_answer_prolongs_the_wait(caplog: pytest.LogCaptureFixture) -> None:
    """A controller that answers is moving the leaders away."""
    assert waited_ms(20, lets_go=True) >= 2 * PATIENCE_MS
    assert "No controller" not in caplog.text


def test_the_wait_has_an_end_though_the_controller_answers() -> None:
    """The stop as a whole may take twice as long."""
    assert 500 <= waited_ms(1000, most_ms=500) < 15_000
