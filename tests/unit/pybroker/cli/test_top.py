"""`pybroker top`: differences between two snapshots of a cluster."""

from __future__ import annotations

from pybroker.cli.top import Sample, compare, fitted

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
BEFORE = Sample(10.0, {A0: 0, A1: 0}, {A0: 10, A1: 10}, {"shop": {A0: 4}}, {"shop": "stable"})
NOW = Sample(
    12.0,
    {A0: 5, A1: 0, B0: 0},
    {A0: 30, A1: 10, B0: 3},
    {"shop": {A0: 10, A1: 9, ("gone", 0): 1}, "new": {B0: 3}},
    {"shop": "stable", "new": "empty"},
)


def test_rates_and_lag_are_computed() -> None:
    """New and deleted topics have no rate."""
    view = compare(BEFORE, NOW, "rate")
    assert view.records_per_s == 10.0
    assert view.topics == [
        {"topic": "a", "partitions": 2, "records": 35, "records_per_s": 10.0, "lag": 20},
        {"topic": "b", "partitions": 1, "records": 3, "records_per_s": 0.0, "lag": 0},
    ]
    assert view.groups == [
        {"group": "shop", "state": "stable", "topics": 1, "records_per_s": 3.0, "lag": 21, "most": 20},
        {"group": "new", "state": "empty", "topics": 1, "records_per_s": 0.0, "lag": 0, "most": 0},
    ]


def test_rows_are_sorted_by_name_or_a_column() -> None:
    assert [row["group"] for row in compare(BEFORE, NOW, "name").groups] == ["new", "shop"]
    assert [row["topic"] for row in compare(BEFORE, NOW, "records").topics] == ["a", "b"]


def test_rows_are_cut_to_the_terminal() -> None:
    """Groups are visible below many topics."""
    lines = ["head", "", "TOPIC", *(f"topic {number}" for number in range(50)), "", "GROUP", "shop"]
    shown = fitted(lines, 50, 6, 20)
    assert len(shown) == 20
    assert shown[-1] == "shop"
    assert shown[3] == "topic "
