"""Concurrent look-ups by timestamp: turns on the loop, waits for a worker, and clients that disconnect."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from broker.replicas.time_look_ups import TimeLookUps
from runtime.deferred import Deferred
from storage.index.time import TimestampOffset
from storage.log.batch_search import BatchGone, BatchSearch, SearchResult
from storage.segment.scan import Entry
from tests.support.fake_loop import FakeLoop
from tests.support.instant_workers import InstantWorkers

A_SEARCH = BatchSearch("no such file", Entry(0, 100, 0, 0, 0, 2, None), 0, False, 0, 1)
FOUND = SearchResult(TimestampOffset(1, 1), 1)


class Stage:
    """Look-ups whose workers do nothing until the test releases them. `outcome` is their result then."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.workers = InstantWorkers()
        self.workers.held = True
        self.outcome: SearchResult | Exception = FOUND
        self.workers.run = lambda function, *args: self._outcome()  # type: ignore[method-assign]
        self.look_ups = TimeLookUps(self.workers, self.loop.call_soon)  # type: ignore[arg-type]
        self.log: list[tuple[str, object]] = []

    def _outcome(self) -> SearchResult:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def steps(self, name: str, *wanted: BatchSearch | None) -> Generator[BatchSearch | None, Any, str]:
        """Looks these up. The log has each result or error, and what is left of the allowance."""
        try:
            for each in wanted:
                self.log.append((name, self.look_ups.allowance.left > 0))
                self.look_ups.allowance.left = 0
                try:
                    self.log.append((name, (yield each)))
                except Exception as error:
                    self.log.append((name, type(error)))
        except GeneratorExit:
            self.log.append((name, "closed"))
            raise
        return name

    def begin(self, name: str, *wanted: BatchSearch | None, charge: Any = None) -> Any:
        self.look_ups.begin_turn()
        return self.look_ups.run(self.steps(name, *wanted), charge)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_look_up_without_a_wait_is_done_at_once(stage: Stage) -> None:
    assert stage.begin("a") == "a"


def test_a_look_up_that_fails_at_once_raises(stage: Stage) -> None:
    def steps() -> Generator[BatchSearch | None, Any, str]:
        yield from ()
        raise LookupError

    with pytest.raises(LookupError):
        stage.look_ups.run(steps())


def test_a_look_up_that_fails_later_fails_its_deferred(stage: Stage) -> None:
    def steps() -> Generator[BatchSearch | None, Any, str]:
        yield None
        raise LookupError

    found = stage.look_ups.run(steps())
    stage.loop.turn()
    assert isinstance(found, Deferred)
    with pytest.raises(LookupError):
        found.result()


def test_look_ups_take_turns_on_the_loop(stage: Stage) -> None:
    """Each has an allowance of its own."""
    a, b = stage.begin("a", None, None), stage.begin("b", None, None)
    c = stage.begin("c")
    assert c == "c"
    turns = []
    for _ in range(4):
        stage.log.clear()
        stage.loop.turn()
        turns.append({name for name, _ in stage.log})
    assert turns == [{"a"}, {"b"}, {"a"}, {"b"}]
    stage.loop.settle()
    assert (a.result(), b.result()) == ("a", "b")
    d = stage.begin("d", None)
    stage.loop.settle()
    assert d.result() == "d"


def test_each_turn_has_an_allowance(stage: Stage) -> None:
    stage.begin("a", None, A_SEARCH, None)
    stage.loop.settle()
    stage.workers.release()
    stage.loop.settle()
    assert stage.log == [("a", True), ("a", None), ("a", True), ("a", FOUND), ("a", True), ("a", None)]


def test_few_searches_are_in_workers_at_a_time(stage: Stage) -> None:
    """Appends that need a worker must not wait behind all of them. The searches run in order of arrival."""
    found = [stage.begin(str(number), A_SEARCH, A_SEARCH) for number in range(5)]
    assert stage.workers.submitted == stage.workers.size == 2
    while stage.workers.is_wanted:
        before = stage.workers.submitted
        stage.workers.release()
        assert stage.workers.submitted - before <= 1
    assert [each.result() for each in found] == list("01234")
    assert [name for name, outcome in stage.log if outcome == FOUND] == list("0123401234")


@pytest.mark.parametrize("error", [BatchGone("file"), OSError(5, "broken")])
def test_errors_of_a_search_go_to_its_request(stage: Stage, error: Exception) -> None:
    stage.outcome = error
    found = stage.begin("a", A_SEARCH)
    stage.workers.release()
    assert found.result() == "a"
    assert stage.log[-1] == ("a", type(error))


def test_a_worker_that_dies_finds_nothing(stage: Stage) -> None:
    found = stage.begin("a", A_SEARCH)
    stage.workers.die()
    assert found.result() == "a"
    assert stage.log[-1] == ("a", None)
    assert stage.begin("b", A_SEARCH) is not None
    assert stage.workers.submitted == 2


def test_disconnected_clients_have_no_turns_and_searches(stage: Stage) -> None:
    """A search in a worker is left to finish, and frees its place then."""
    names = ["turn", "first", "second", "third", "fourth"]
    found = [stage.begin(name, A_SEARCH if place else None) for place, name in enumerate(names)]
    for each in found[:2] + found[3:4]:
        each.cancel()
    assert stage.log[-3:] == [("turn", "closed"), ("first", "closed"), ("third", "closed")]
    stage.log.clear()
    stage.loop.settle()
    assert stage.log == []
    while stage.workers.is_wanted:
        stage.workers.release()
    assert stage.workers.submitted == 3
    assert [each.done and not each.cancelled for each in found] == [False, False, True, False, True]


def test_turns_are_charged_to_the_client(stage: Stage) -> None:
    """To its quota of the broker's time. Its waiting time is not charged."""

    class Charge:
        def resume(self) -> None:
            stage.log.append(("charge", "resumed"))

        def pause(self) -> None:
            stage.log.append(("charge", "paused"))

    stage.begin("a", None, A_SEARCH, charge=Charge())
    stage.loop.settle()
    stage.workers.release()
    began, resumed, paused = ("a", True), ("charge", "resumed"), ("charge", "paused")
    assert stage.log == [began, resumed, ("a", None), began, paused, resumed, ("a", FOUND), paused]
