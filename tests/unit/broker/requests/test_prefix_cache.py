"""Heads that a shortcut has learned are forgotten when they do not come any more."""

from __future__ import annotations

from broker.requests.prefix_cache import LearnedHeads
from protocol.shortcuts.prefix_cache import Head, Heads
from runtime.timers import Timers
from tests.support.fake_loop import FakeClock, FakeLoop


class Words(Heads[Head]):
    def _parse(self, head: bytes) -> Head:
        return Head(head)

    @property
    def remembered(self) -> set[bytes]:
        return {*self._latest, *self._earlier}


def test_what_does_not_come_any_more_is_forgotten() -> None:
    clock = FakeClock()
    loop = FakeLoop(clock)
    timers = Timers(loop, clock)
    words = Words(10)
    learned = LearnedHeads(words, timers)
    assert not loop.handles
    learned.learn(Head(b"once"))
    learned.learn(Head(b"often"))
    loop.advance(59_999)
    assert words.remembered == {b"once", b"often"}
    loop.advance(1)
    assert words.remembered == {b"once", b"often"}
    words._recall(b"often")
    loop.advance(60_000)
    assert words.remembered == {b"often"}
    loop.advance(120_000)
    assert not words.remembered
    assert not loop.handles
    learned.learn(Head(b"again"))
    loop.advance(120_000)
    assert not words.remembered
