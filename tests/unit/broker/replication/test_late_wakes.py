"""Wakes of fetches, a turn after the appends."""

from __future__ import annotations

from broker.replication.late_wakes import LateWakes
from runtime.purgatory import Purgatory
from runtime.timers import Timers
from runtime.turn import Turn
from tests.support.fake_loop import FakeLoop


class Waiting:
    """A fetch that waits for "t-0", and how often it was tried again."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.purgatory = Purgatory(Timers(self.loop, self.loop.clock), Turn(self.loop.call_soon))
        self.wakes = LateWakes(self.purgatory, self.loop.call_soon)
        self.tried = 0
        self.purgatory.watch(["t-0"], self._try, None, lambda: None)

    def _try(self) -> bool:
        self.tried += 1
        return False


def test_a_fetch_is_tried_once_for_the_appends_of_two_turns() -> None:
    waiting = Waiting()
    waiting.wakes.wake("t-0")
    waiting.loop.turn()
    waiting.wakes.wake("t-0")
    assert waiting.tried == 0
    waiting.loop.settle()
    assert waiting.tried == 1


def test_each_later_append_wakes_again() -> None:
    waiting = Waiting()
    for count in (1, 2):
        waiting.wakes.wake("t-0")
        waiting.loop.settle()
        assert waiting.tried == count


def test_without_a_waiting_fetch_the_loop_may_sleep() -> None:
    waiting = Waiting()
    waiting.wakes.wake("t-1")
    assert not waiting.loop._soon
