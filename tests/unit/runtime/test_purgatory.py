"""Purgatory: waiters by key, with deadlines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.purgatory import Purgatory
from runtime.timers import Timers
from runtime.turn import Turn
from tests.support.fake_loop import FakeLoop


class Setup:
    def __init__(self):
        self.loop = FakeLoop()
        self.timers = Timers(self.loop, self.loop.clock)
        self.purgatory = Purgatory(self.timers, Turn(self.loop.call_soon))
        self.seen = []

    def wait(self, name, keys, after_ms=None, content=lambda: True):
        def try_complete():
            if not content():
                return False
            self.seen.append(name)
            return True

        deadline_ms = None if after_ms is None else self.loop.clock.monotonic_ms() + after_ms
        return self.purgatory.watch(keys, try_complete, deadline_ms, lambda: self.seen.append(f"{name} too late"))


@pytest.fixture
def setup():
    return Setup()


def test_check_tries_only_the_waiters_of_the_key(setup):
    """An append wakes the waiters of its partition, in the order of their arrival."""
    setup.wait("a", ["p0"])
    setup.wait("b", ["p1"])
    setup.wait("c", ["p0", "p2"])

    assert setup.purgatory.check("p0") == 2

    assert setup.seen == ["a", "c"]
    assert len(setup.purgatory) == 1
    assert setup.purgatory.check("p2") == 0


def test_an_incomplete_waiter_keeps_waiting(setup):
    """A fetch with min.bytes is tried again at the next append."""
    enough = []
    setup.wait("a", ["p0"], content=lambda: bool(enough))

    assert setup.purgatory.check("p0") == 0
    enough.append(1)
    assert setup.purgatory.check("p0") == 1
    assert setup.seen == ["a"]


def test_the_deadline_ends_the_wait_once(setup):
    """A check in time also cancels the deadline."""
    setup.wait("a", ["p0"], after_ms=100)
    setup.wait("b", ["p0", "p1"], after_ms=200)
    setup.loop.advance(100)
    setup.purgatory.check("p1")
    setup.loop.advance(500)

    assert setup.seen == ["a too late", "b"]
    assert len(setup.purgatory) == 0
    assert len(setup.timers) == 0
    assert setup.purgatory._waiters == {}


def test_a_cancelled_waiter_is_not_called(setup):
    """Its client has disconnected."""
    waiter = setup.wait("a", ["p0"], after_ms=100)

    waiter.cancel()
    waiter.cancel()
    setup.purgatory.check("p0")
    setup.loop.advance(200)

    assert setup.seen == []
    assert not waiter.active
    assert len(setup.purgatory) == 0


def test_check_soon_checks_once_per_turn(setup):
    """Many appends of one turn wake a fetch once."""
    setup.wait("a", ["p0"])
    setup.purgatory.check_soon("p0")
    setup.purgatory.check_soon("p0")
    setup.purgatory.check_soon("nobody waits for this")
    assert setup.seen == []

    setup.loop.turn()

    assert setup.seen == ["a"]


def test_waiters_may_change_during_a_check(setup):
    """A waiter that completes may wait again, or cancel another one."""

    def wait_again():
        other.cancel()
        setup.wait("again", ["p0"])
        return True

    setup.wait("a", ["p0"], content=wait_again)
    other = setup.wait("b", ["p0"])

    assert setup.purgatory.check("p0") == 1
    assert setup.seen == ["a"]
    assert len(setup.purgatory) == 1


def test_a_failing_waiter_does_not_affect_others(setup, caplog):
    """The others are tried nevertheless, and it keeps its deadline."""

    def fail():
        raise ValueError("mine")

    setup.wait("broken", ["a"], 50, content=fail)
    setup.wait("sound", ["a"])

    assert setup.purgatory.check("a") == 1
    assert setup.seen == ["sound"]
    setup.loop.advance(50)
    assert setup.seen == ["sound", "broken too late"]
    setup.purgatory.watch([], fail, None, fail)
    setup.wait("last", ["b"])
    setup.purgatory.expire_all()
    assert setup.seen[-1] == "last too late"
    assert len(setup.purgatory) == 0
    assert [str(record.exc_info[1]) for record in caplog.records] == ["mine", "mine"]


def test_expire_all_times_all_waiters_out(setup):
    """A shutdown does not wait for deadlines."""
    setup.wait("a", ["p0", "p1"], after_ms=100_000)
    setup.wait("b", [], after_ms=100_000)
    setup.wait("c", ["p0"])

    setup.purgatory.expire_all()

    assert {"a too late", "b too late", "c too late"} == set(setup.seen)
    assert len(setup.purgatory) == 0
    assert len(setup.timers) == 0


@given(st.lists(st.tuples(st.sampled_from(["wait", "check", "cancel", "pass"]), st.integers(0, 3), st.integers(0, 50))))
def test_each_waiter_ends_exactly_once(steps):
    """For any order of checks, cancels and deadlines."""
    setup = Setup()
    waiters = []
    cancelled = set()
    for number, (verb, key, time_ms) in enumerate(steps):
        if verb == "wait":
            waiters.append((number, setup.wait(str(number), [key, (key + 1) % 4], after_ms=time_ms)))
        elif verb == "check":
            setup.purgatory.check(key)
        elif verb == "cancel" and waiters:
            number, waiter = waiters[key % len(waiters)]
            if waiter.active:
                cancelled.add(number)
            waiter.cancel()
        elif verb == "pass":
            setup.loop.advance(time_ms)
    setup.loop.advance(1000)

    ended = [int(name.split()[0]) for name in setup.seen]
    assert len(set(ended)) == len(ended)
    assert {number for number, _ in waiters} == set(ended) | cancelled
    assert not set(ended) & cancelled
    assert len(setup.purgatory) == 0
