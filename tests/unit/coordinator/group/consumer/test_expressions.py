"""Expressions are accepted as by RE2J, and rejected with its messages."""

from __future__ import annotations

import pytest

from coordinator.group.consumer.expressions import compile_expression
from coordinator.group.consumer.regex import matching
from coordinator.group.refused import Refused
from protocol.error_codes import ErrorCode


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("(", "missing closing )"),
        ("[^]", "missing closing ]"),
        ("a)", "regexp/syntax: internal error"),
        ("a\\", "trailing backslash at end of expression"),
        ("a|*", "missing argument to repetition operator"),
        ("a{1001}", "invalid repeat count"),
        ("a{2,1}", "invalid repeat count"),
        ("a{99999999999}", "invalid repeat count"),
        ("a**", "invalid nested repetition operator"),
        ("a(?=b)", "invalid or unsupported Perl syntax"),
        ("(?P<>a)", "invalid named capture"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name"),
        (r"(a)\1", "invalid escape sequence"),
        (r"\C", "invalid escape sequence"),
        ("[z-a]", "invalid character class range"),
    ],
)
def test_rejected_expressions(expression: str, reason: str) -> None:
    """As on Apache Kafka 4.3.1."""
    with pytest.raises(Refused) as refused:
        compile_expression(expression)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.value.message == f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {reason}."
    assert matching(expression, ["a", "b"]) == frozenset()


@pytest.mark.parametrize(
    "expression", ["(?i)A", r"\Qa", "a{,2}|a", "(?<n>a)", "[]a]", "a{1000}|a", r"\\C|a", r"\Q\C\E|a"]
)
def test_accepted_expressions(expression: str) -> None:
    assert matching(expression, ["a", "ab", "b"]) == {"a"}


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("(?:[ab]?){1000}" * 20, id="short, with many steps"),
        pytest.param("." * 16_000, id="long, with many steps"),
        pytest.param("a" * 40_000, id="too long to be read"),
    ],
)
def test_slow_expressions_are_rejected(expression: str) -> None:
    """RE2 itself accepts these: some take a third of a second per name, and 8 MiB while they are cached."""
    with pytest.raises(Refused, match="pattern too large") as refused:
        compile_expression(expression)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert matching(expression, ["a"]) == frozenset()


def test_long_lists_of_names_are_accepted() -> None:
    """A user may put a list of topics into an expression."""
    names = [f"team-{number % 17}.service-{number:04}.events-by-customer" for number in range(250)]
    assert matching("|".join(names), [*names, "another"]) == set(names)


def test_whole_names_match() -> None:
    names = ["orders", "orders-eu", "x-orders"]
    assert matching("orders.*", names) == {"orders", "orders-eu"}
    assert matching("", names) == frozenset()
