"""Deadlines by key."""

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.timers import SLACK, Timers
from tests.support.scale import scaled


def test_expire_returns_due_keys_in_order_and_once():
    timers: Timers[str] = Timers()
    timers.schedule("late", 30)
    timers.schedule("early", 10)
    timers.schedule("same", 10)

    assert list(timers.expire(9)) == []
    assert list(timers.expire(20)) == ["early", "same"]
    assert list(timers.expire(20)) == []
    assert "late" in timers
    assert len(timers) == 1


def test_schedule_later_does_not_touch_the_heap():
    timers: Timers[str] = Timers()
    timers.schedule("a", 10)
    timers.schedule("a", 50)

    assert timers.next_check_ms() == 10
    assert list(timers.expire(49)) == []
    assert timers.next_check_ms() == 50
    assert list(timers.expire(50)) == ["a"]


def test_schedule_earlier_fires_earlier_and_only_once():
    timers: Timers[str] = Timers()
    timers.schedule("a", 50)
    timers.schedule("a", 10)

    assert list(timers.expire(10)) == ["a"]
    assert list(timers.expire(100)) == []


def test_cancel_forgets_and_a_new_deadline_counts_again():
    timers: Timers[str] = Timers()
    timers.schedule("a", 10)
    timers.cancel("a")
    timers.cancel("never")
    assert timers.deadline_ms("a") is None
    assert list(timers.expire(10)) == []
    timers.schedule("a", 20)
    assert timers.deadline_ms("a") == 20
    assert list(timers.expire(20)) == ["a"]
    assert timers.next_check_ms() is None


def test_deadlines_set_while_expiring_are_due_next_time():
    timers: Timers[str] = Timers()
    timers.schedule("again", 5)
    timers.schedule("other", 7)
    taken = []
    for key in timers.expire(10):
        taken.append(key)
        timers.schedule("again", 10)
    assert taken == ["again", "other"]
    assert timers.next_check_ms() == 10
    assert list(timers.expire(10)) == ["again"]


def test_many_cancelled_keys_do_not_stay_in_memory():
    timers: Timers[int] = Timers()
    for key in range(10 * SLACK):
        timers.schedule(key, 1_000_000)
        timers.cancel(key)
    timers.schedule(-1, 5)

    assert len(timers._heap) <= 2 * SLACK
    assert list(timers.expire(5)) == [-1]


steps = st.lists(
    st.tuples(st.sampled_from(["set", "cancel", "pass"]), st.integers(0, 5), st.integers(0, 40)), max_size=60
)


@settings(max_examples=scaled(200), deadline=None)
@given(steps)
def test_timers_agree_with_a_plain_dictionary(actions):
    """A key is returned by the first check at or after its last deadline, whatever was set and cancelled before."""
    timers: Timers[int] = Timers()
    model: dict[int, int] = {}
    now = 0
    for action, key, amount in actions:
        if action == "set":
            timers.schedule(key, now + amount)
            model[key] = now + amount
        elif action == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        else:
            now += amount
            due = {key for key, deadline in model.items() if deadline <= now}
            assert set(timers.expire(now)) == due
            for key in due:
                del model[key]
        check = timers.next_check_ms()
        assert not model or (check is not None and check <= min(model.values()))
