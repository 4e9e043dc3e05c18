"""Timers: deadlines on one timer of the loop."""

from runtime.timers import Timers
from tests.support.fake_loop import FakeClock, FakeLoop


def timers_and_loop():
    loop = FakeLoop()
    return Timers(loop, loop.clock), loop


def test_calls_are_in_the_order_of_their_deadlines():
    """Equal deadlines are in the order of their creation."""
    timers, loop = timers_and_loop()
    seen = []
    for name, delay_ms in (("c", 30), ("a", 10), ("b1", 20), ("b2", 20)):
        timers.call_later(delay_ms, lambda name=name: seen.append((name, loop.clock.monotonic_ms())))
    start_ms = loop.clock.monotonic_ms()

    loop.advance(100)

    assert [("a", start_ms + 10), ("b1", start_ms + 20), ("b2", start_ms + 20), ("c", start_ms + 30)] == seen
    assert len(timers) == 0


def test_the_loop_has_one_timer_for_all():
    """Thousands of timers are entries of one heap, not timers of the loop."""
    timers, loop = timers_and_loop()

    for delay_ms in range(1000, 0, -1):
        timers.call_later(delay_ms, lambda: None)

    assert sum(handle.callback is not None for handle in loop.handles) == 1
    assert len(timers) == 1000


def test_cancelled_entries_are_swept():
    """Sessions are renewed far more often than they end: cancelled entries must not pile up."""
    timers, loop = timers_and_loop()
    seen = []
    kept = timers.call_later(50_000, lambda: seen.append("kept"))
    for _ in range(10_000):
        timers.call_later(30_000, lambda: seen.append("cancelled")).cancel()

    assert len(timers) == 1
    assert len(timers._heap) < 1000

    loop.advance(60_000)
    kept.cancel()
    assert seen == ["kept"]


def test_cancelled_calls_do_not_wake_the_loop():
    """A waiting fetch is answered long before its deadline, hundreds of times a second."""
    timers, loop = timers_and_loop()
    wake_ups = []
    call_later = loop.call_later
    loop.call_later = lambda delay, callback: call_later(delay, lambda: (wake_ups.append(delay), callback()))
    timer = None
    for _ in range(1000):
        if timer is not None:
            timer.cancel()
        timer = timers.call_later(500, lambda: None)
        loop.advance(5)

    assert len(wake_ups) <= 10
    assert len(timers) == 1


def test_a_call_may_cancel_and_add_others():
    """Calls of the same deadline are made one by one."""
    timers, loop = timers_and_loop()
    seen = []

    def first():
        seen.append("first")
        second.cancel()
        timers.call_later(0, lambda: seen.append("new"))

    timers.call_later(10, first)
    second = timers.call_later(10, lambda: seen.append("second"))

    loop.advance(20)

    assert seen == ["first", "new"]


def test_a_failing_call_does_not_stop_the_others(caplog):
    timers, loop = timers_and_loop()
    seen = []
    timers.call_later(10, lambda: 1 // 0)
    timers.call_later(10, lambda: seen.append("second"))
    timers.call_later(20, lambda: seen.append("third"))

    loop.advance(20)

    assert seen == ["second", "third"]
    assert "ZeroDivisionError" in caplog.text


def test_an_earlier_deadline_is_met_after_a_later_one_was_set():
    """The loop's timer is set again."""
    timers, loop = timers_and_loop()
    seen = []
    timers.call_later(1000, lambda: seen.append("late"))
    timers.call_later(10, lambda: seen.append("early"))

    loop.advance(10)

    assert seen == ["early"]


def test_cancelling_a_due_call_keeps_the_count_right():
    """A call cancels others of the same deadline, which are not in the heap any more."""
    timers, loop = timers_and_loop()
    others = []
    timers.call_later(10, lambda: [other.cancel() for other in others])
    others += [timers.call_later(10, lambda: None) for _ in range(3)]

    loop.advance(10)

    assert len(timers) == 0


def test_calls_may_empty_the_heap():
    """The sweep within a call makes another heap, for which the loop's timer is set."""
    timers, loop = timers_and_loop()
    seen = []
    later = []
    timers.call_later(10, lambda: [each.cancel() for each in later])
    later += [timers.call_later(1000 + number, lambda: seen.append("cancelled")) for number in range(1000)]

    loop.advance(10)  # raises nothing
    assert len(timers) == 0
    timers.call_later(5, lambda: seen.append("called"))
    loop.advance(5)
    assert seen == ["called"]


def test_moving_the_clock_makes_due_calls():
    """The loop's own clock is not moved, so its timer would be late."""
    loop = FakeLoop()
    clock = FakeClock()
    timers = Timers(loop, clock)
    seen = []
    for delay_ms in (10_000, 20_000, 40_000):
        timers.call_later(delay_ms, lambda delay_ms=delay_ms: seen.append(delay_ms))
    clock.advance(30_000)
    loop.advance(0)
    assert seen == []
    timers.clock_moved()
    loop.advance(0)
    assert seen == [10_000, 20_000]


def test_moving_the_clock_without_calls_sets_no_timer():
    timers, loop = timers_and_loop()
    timers.clock_moved()
    assert loop.handles == []
