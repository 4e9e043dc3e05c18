"""Names of topics."""

from __future__ import annotations

import pytest

from metadata.topic_names import collision_key, is_internal, may_collide, name_problem


@pytest.mark.parametrize("name", ["orders", "a.b_c-d", "0", "A" * 249, "...", "__consumer_offsets"])
def test_legal_names(name: str):
    """ASCII letters, digits, dots, underscores and hyphens, up to 249 of them (S2.1)."""
    assert name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("A" * 250, "is longer than the max allowed length 249"),
        ("bad name!", "'bad name!' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a/b", "other than ASCII"),
        ("ä", "other than ASCII"),
        ("٣", "other than ASCII"),
        ("a\n", "other than ASCII"),
    ],
)
def test_illegal_names_have_a_reason(name: str, problem: str):
    """The message is the one that kafka-topics prints."""
    found = name_problem(name)

    assert found is not None
    assert found.startswith("Topic name is invalid: ")
    assert problem in found


def test_dots_and_underscores_collide():
    """Metric names do not distinguish them."""
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert may_collide("a.b")
    assert may_collide("a_b")
    assert not may_collide("a-b")


def test_internal_topics():
    """The topics to which the broker's coordinators write."""
    assert is_internal("__consumer_offsets")
    assert not is_internal("__cluster_metadata")
    assert not is_internal("orders")
