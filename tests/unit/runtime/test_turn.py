"""Turn: work at the end of a turn of the loop."""

from runtime.turn import Turn
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


def test_nested_calls_run_in_this_turn_and_the_next():
    """Waiters are woken and answered in one turn; two that wake each other do not block the loop."""
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


def test_a_failing_call_does_not_stop_the_others(caplog):
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


def test_sends_are_made_before_other_calls():
    """In their order, whatever was added before them."""
    loop = FakeLoop()
    turn = Turn(loop.call_soon)
    seen = []

    turn.at_end(lambda: seen.append("call"))
    turn.send_at_end(lambda: seen.append("first"))
    turn.send_at_end(lambda: seen.append("second"))
    assert seen == []
    loop.turn()

    assert seen == ["first", "second", "call"]


def test_sends_of_calls_are_made_in_the_same_turn():
    """For example, the response to a waiting request that is completed."""
    loop = FakeLoop()
    turn = Turn(loop.call_soon)
    seen = []

    turn.at_end(lambda: turn.send_at_end(lambda: seen.append("sent")))
    loop.turn()

    assert seen == ["sent"]


def test_sends_of_sends_are_made_in_the_next_turn():
    """They do not wait longer."""
    loop = FakeLoop()
    turn = Turn(loop.call_soon)
    seen = []

    turn.at_end(lambda: turn.send_at_end(lambda: turn.send_at_end(lambda: seen.append("sent"))))
    loop.turn()
    assert seen == []
    loop.turn()

    assert seen == ["sent"]


def test_sends_alone_schedule_a_turn():
    loop = FakeLoop()
    turn = Turn(loop.call_soon)
    seen = []

    for _ in range(2):
        turn.send_at_end(lambda: seen.append("sent"))
        loop.turn()

    assert seen == ["sent", "sent"]


def test_send_now_sends_before_long_work():
    """The caller sends before long work; nothing is sent again at the end."""
    loop = FakeLoop()
    turn = Turn(loop.call_soon)
    seen = []

    turn.send_at_end(lambda: seen.append("sent"))
    turn.send_now()
    assert seen == ["sent"]
    loop.turn()

    assert seen == ["sent"]


def test_many_sends_are_sent_early():
    """128 are sent at once; later ones wait for the end of the turn."""
    loop = FakeLoop()
    turn = Turn(loop.call_soon)
    seen = []

    for number in range(130):
        turn.send_at_end(lambda number=number: seen.append(number))
    assert seen == list(range(128))
    loop.turn()

    assert seen == list(range(130))


def test_a_failing_send_does_not_stop_the_others(caplog):
    loop = FakeLoop()
    turn = Turn(loop.call_soon)
    seen = []
    turn.send_at_end(lambda: 1 // 0)
    turn.send_at_end(lambda: seen.append("second"))

    loop.turn()

    assert seen == ["second"]
    assert "ZeroDivisionError" in caplog.text
