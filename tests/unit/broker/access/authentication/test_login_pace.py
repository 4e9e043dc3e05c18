"""Login steps: each turn of the loop runs a slice of them. The test turns the loop by hand."""

from __future__ import annotations

import pytest

from broker.access.authentication.login_pace import LoginPace
from broker.requests.dispatcher import CloseConnection
from protocol.error_codes import ProtocolError
from runtime.deferred import Deferred
from tests.support.fake_loop import FakeLoop

STEP_NS = 900_000
A_SLICE = 3  # steps: two do not fill it


class Paced:
    """`done` has the steps that ran."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.now_ns = 0
        self.done: list[int] = []
        self.pace = LoginPace(self.loop.call_soon, lambda: self.now_ns)

    def step(self, number: int) -> int:
        self.now_ns += STEP_NS
        self.done.append(number)
        return number

    def ask(self, number: int) -> int | Deferred[int] | None:
        return self.pace(lambda: self.step(number))


@pytest.fixture
def paced() -> Paced:
    return Paced()


def test_a_turn_runs_a_slice_and_the_rest_waits_in_order(paced: Paced) -> None:
    asked = [paced.ask(number) for number in range(8)]
    assert asked[:A_SLICE] == [0, 1, 2]
    assert all(isinstance(each, Deferred) and not each.done for each in asked[A_SLICE:])
    late = paced.ask(8)
    for turn in (2, 3):
        paced.loop.turn()
        assert paced.done == list(range(turn * A_SLICE))
    paced.loop.turn()
    assert isinstance(late, Deferred)
    assert late.result() == 8


def test_the_next_turn_begins_with_a_whole_slice(paced: Paced) -> None:
    for _ in range(5):
        assert [paced.ask(number) for number in range(A_SLICE)] == [0, 1, 2]
        paced.loop.turn()
        paced.loop.turn()


def test_disconnected_client_costs_no_work(paced: Paced) -> None:
    """A step without a response leaves its request as it is, because the connection is about to end."""
    for number in range(A_SLICE):
        paced.ask(number)
    gone, failed = paced.ask(3), paced.pace(lambda: None)
    assert isinstance(gone, Deferred)
    assert isinstance(failed, Deferred)
    gone.cancel()
    paced.loop.turn()
    assert paced.done == [0, 1, 2]
    assert not failed.done


@pytest.mark.parametrize("error", [ProtocolError("bytes"), CloseConnection("why"), ZeroDivisionError()])
def test_a_step_that_fails_ends_its_connection_alone(paced: Paced, error: Exception) -> None:
    def fail() -> int:
        raise error

    for number in range(A_SLICE):
        paced.ask(number)
    failing, following = paced.pace(fail), paced.ask(4)
    paced.loop.turn()
    assert isinstance(failing, Deferred)
    assert isinstance(following, Deferred)
    with pytest.raises((ProtocolError, CloseConnection)):
        failing.result()
    assert following.result() == 4


def test_large_steps_wait_while_there_is_room(paced: Paced) -> None:
    """A disconnected client's step frees its room once it is released. Small steps may always wait."""
    for number in range(A_SLICE):
        paced.ask(number)
    large, small = 1 << 20, 1 << 10
    waiting = []
    while paced.pace.has_room(large):
        waiting.append(paced.pace(lambda: paced.step(9), large))
    assert len(waiting) == 16
    assert paced.pace.has_room(small)
    gone = waiting[0]
    assert isinstance(gone, Deferred)
    gone.cancel()
    assert not paced.pace.has_room(large)
    paced.loop.settle()
    assert paced.done == [0, 1, 2] + [9] * 15
    assert paced.pace.has_room(16 * large)
    assert not paced.pace.has_room(16 * large + 1)
