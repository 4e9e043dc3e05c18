"""Waits return the accepted value, and report what they waited for when the deadline passes."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.eventually import eventually, eventually_async, succeeds


def test_a_value_that_becomes_true_is_returned():
    values = iter(["", "", "here"])

    assert eventually(lambda: next(values), interval_s=0) == "here"


def test_the_value_that_until_accepts_is_returned():
    values = iter([3, 5, 8])

    assert eventually(lambda: next(values), until=lambda value: value > 5, interval_s=0) == 8


def test_an_expected_value_is_awaited_and_reported():
    values = iter([3, 5])

    assert eventually(lambda: next(values), equal_to=5, interval_s=0) == 5
    with pytest.raises(AssertionError, match=r"last value: 4\nexpected: 5"):
        eventually(lambda: 4, equal_to=5, timeout_s=0)


def test_a_retried_exception_is_followed_by_another_call():
    errors = iter([OSError("first"), None])

    def attempt() -> None:
        if error := next(errors):
            raise error

    assert eventually(attempt, retried=OSError, until=succeeds, interval_s=0) is None


def test_another_exception_is_raised_at_once():
    def attempt() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        eventually(attempt, retried=OSError)


def test_a_passed_deadline_reports_message_and_last_value():
    with pytest.raises(AssertionError, match=r"not within 0 s: a leader\nlast value: \[-1\]"):
        eventually(lambda: [-1], "a leader", until=lambda leaders: leaders[0] >= 0, timeout_s=0, interval_s=0)


def test_a_message_is_computed_when_the_deadline_has_passed():
    output = []

    def condition() -> bool:
        output.append("line")
        return False

    with pytest.raises(AssertionError, match=r"\['line'"):
        eventually(condition, lambda: output, timeout_s=0, interval_s=0)


def test_the_last_retried_exception_is_the_cause_of_the_failure():
    def attempt() -> None:
        raise OSError("refused")

    with pytest.raises(AssertionError) as failure:
        eventually(attempt, retried=OSError, timeout_s=0, interval_s=0)
    assert isinstance(failure.value.__cause__, OSError)


def test_a_coroutine_waits_for_functions_and_coroutines():
    values = iter([0, 0, 7, 0, 9])

    async def scenario() -> list[int]:
        async def following() -> int:
            return next(values)

        return [await eventually_async(lambda: next(values)), await eventually_async(following)]

    assert asyncio.run(scenario()) == [7, 9]


def test_coroutine_reports_its_condition():
    with pytest.raises(AssertionError, match="not within 0 s: an answer\nlast value: 0"):
        asyncio.run(eventually_async(lambda: 0, "an answer", timeout_s=0))
