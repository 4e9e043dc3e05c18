"""Rounds in which brokers take turns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bench.comparison.figures import Category
from bench.comparison.generator import GeneratorFailed
from bench.comparison.session import Session, make_figure


def session(*names: str, warm_s: float = 9) -> Session:
    brokers: Any = [SimpleNamespace(kind=name) for name in names]
    return Session(brokers, rounds=2, seconds=3, warm_s=warm_s)


def test_brokers_take_turns_after_both_are_warm() -> None:
    calls: list[tuple[str, float]] = []

    def once(broker: Any, seconds: float) -> int:
        calls.append((broker.kind, seconds))
        return len(calls)

    found = session("ours", "kafka").alternate(once)

    assert calls == [("ours", 9), ("kafka", 9), ("ours", 3), ("kafka", 3), ("ours", 3), ("kafka", 3)]
    assert found == [[3, 5], [4, 6]]


def test_without_a_warm_up_time_nothing_is_warmed_up() -> None:
    assert session("ours", warm_s=0).alternate(lambda broker, seconds: seconds) == [[3, 3]]


def test_a_round_that_apache_kafka_aborts_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    rounds = iter(["ours", "broken", "ours", "kafka"])

    def once(broker: Any, seconds: float) -> str:
        if (what := next(rounds)) == "broken":
            raise GeneratorFailed("the broker closed a connection")
        return what

    assert session("ours", "kafka", warm_s=0).alternate(once) == [["ours", "ours"], ["kafka"]]
    assert "left out: the broker closed a connection" in capsys.readouterr().err


def test_a_round_that_our_broker_aborts_ends_the_session() -> None:
    def once(broker: Any, seconds: float) -> None:
        raise GeneratorFailed("the broker closed a connection")

    with pytest.raises(GeneratorFailed):
        session("ours", "kafka").alternate(once)


def test_a_figure_reports_that_all_rounds_were_aborted() -> None:
    assert make_figure(Category.CPU, "load", "us", [[1.0], []], float).kafka_broke_off
    assert not make_figure(Category.CPU, "load", "us", [[1.0]], float).kafka_broke_off
    assert not make_figure(Category.CPU, "load", "us", [[1.0], [2.0]], float).kafka_broke_off


def test_a_figure_takes_one_value_of_each_round() -> None:
    made = make_figure(Category.CPU, "load", "us", [[1, 2], [3, 4]], lambda each: 10.0 * each)

    assert (made.ours, made.kafka) == ((10.0, 20.0), (30.0, 40.0))
    assert make_figure(Category.CPU, "load", "us", [[1, 2]], float).kafka == ()
