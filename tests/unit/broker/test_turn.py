"""Turn: work at the end of what the loop does between two waits."""

from broker.turn import Turn
from tests.support.fake_loop import FakeLoop


def test_calls_run_in_order_in_one_call_of_the_loop():
    """However many there are."""
    loop = FakeLoop()
    turn = Turn(loop.call_soon)
    seen = []

    for name in "abc":
        turn.at_end(lambda name=name: seen.append(name))
    assert seen == []
    loop.turn()

    assert seen == ["a", "b", "c"]


def test_what_a_call_puts_off_runs_in_the_same_turn_and_then_in_the_next():
    """Waiters are woken and answered in one turn; two that wake each other do not hold the loop."""
    loop = FakeLoop()
    turn = Turn(loop.call_soon)
    seen = []

    def again(depth):
        seen.append(depth)
        turn.at_end(lambda: again(depth + 1))

    turn.at_end(lambda: again(0))

    loop.turn()
    assert seen == [0, 1]
    loop.turn()
    assert seen == [0, 1, 2, 3]


def test_a_call_that_fails_does_not_stop_the_others(caplog):
    """It is logged."""
    loop = FakeLoop()
    turn = Turn(loop.call_soon)
    seen = []
    turn.at_end(lambda: 1 // 0)
    turn.at_end(lambda: seen.append("second"))

    loop.turn()
    turn.at_end(lambda: seen.append("third"))
    loop.turn()

    assert seen == ["second", "third"]
    assert "ZeroDivisionError" in caplog.text
