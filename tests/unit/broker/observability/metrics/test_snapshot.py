"""Samples are taken on the loop, some in each turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.observability.metrics.metric import Sample, own
from broker.observability.metrics.snapshot import take_snapshot
from runtime.deferred import Deferred
from tests.support.fake_loop import FakeLoop

METRIC = own("numbers", ("number",), "Numbers.")


class Loop(FakeLoop):
    """A loop that accepts calls with arguments, also from other threads."""

    def call_soon(self, callback, *args) -> None:  # type: ignore[no-untyped-def, override]
        super().call_soon(lambda: callback(*args))

    call_soon_threadsafe = call_soon


def numbers(count: int) -> Iterator[Sample]:
    for number in range(count):
        yield METRIC, (str(number),), number


def test_many_samples_take_several_turns() -> None:
    """So that the loop serves its sockets in between."""
    loop = Loop()
    taken = take_snapshot(loop, lambda: numbers(1200))  # type: ignore[arg-type]
    turns = 0
    while not taken.done():
        loop.turn()
        turns += 1

    assert turns == 4
    assert taken.result() == {METRIC: [((str(number),), number) for number in range(1200)]}


def test_failing_source_fails_the_snapshot() -> None:
    """The caller gets the exception, and the loop continues."""

    def broken() -> Iterator[Sample]:
        yield METRIC, ("1",), 1
        raise KeyError("gone")

    loop = Loop()
    taken = take_snapshot(loop, broken)  # type: ignore[arg-type]
    loop.settle()

    with pytest.raises(KeyError):
        taken.result(0)


def test_failing_preparation_fails_the_snapshot() -> None:
    def broken() -> Deferred[None]:
        raise KeyError("gone")

    loop = Loop()
    taken = take_snapshot(loop, lambda: numbers(1), broken)  # type: ignore[arg-type]
    loop.settle()

    with pytest.raises(KeyError):
        taken.result(0)
