"""Rounds that brokers take in turn."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from bench.comparison.figures import Axis
from bench.comparison.session import Session, figure


def session(*names: str, warm_s: float = 9) -> Session:
    brokers: Any = [SimpleNamespace(kind=name) for name in names]
    return Session(brokers, rounds=2, seconds=3, warm_s=warm_s)


def test_brokers_take_turns_after_both_are_warm() -> None:
    calls: list[tuple[str, float]] = []

    def once(broker: Any, seconds: float) -> int:
        calls.append((broker.kind, seconds))
        return len(calls)

    found = session("ours", "kafka").in_turn(once)

    assert calls == [("ours", 9), ("kafka", 9), ("ours", 3), ("kafka", 3), ("ours", 3), ("kafka", 3)]
    assert found == [[3, 5], [4, 6]]


def test_nothing_is_warmed_up_for_no_time() -> None:
    assert session("ours", warm_s=0).in_turn(lambda broker, seconds: seconds) == [[3, 3]]


def test_a_figure_takes_one_value_of_each_round() -> None:
    made = figure(Axis.CPU, "load", "us", [[1, 2], [3, 4]], lambda each: 10.0 * each)

    assert (made.ours, made.kafka) == ((10.0, 20.0), (30.0, 40.0))
    assert figure(Axis.CPU, "load", "us", [[1, 2]], float).kafka == ()
