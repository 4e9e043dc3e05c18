"""Figures: medians, ratios, spreads, and how numbers are shown."""

from __future__ import annotations

import math

import pytest

from bench.comparison.figures import Category, Figure, quantile, rounded, spread


def figure(ours: tuple[float, ...], kafka: tuple[float, ...], *, more_is_better: bool = False) -> Figure:
    return Figure(Category.CPU, "small", "CPU us a request", ours, kafka, more_is_better)


def test_a_ratio_of_medians_above_1_means_ours_is_better() -> None:
    """Less is better for costs, more is better for yields."""
    assert figure((1.0, 2.0, 90.0), (3.0, 4.0, 5.0)).ratio == 2.0
    assert figure((1.0, 2.0, 90.0), (3.0, 4.0, 5.0), more_is_better=True).ratio == 0.5


def test_there_is_no_ratio_without_a_divisor() -> None:
    """If only our broker ran, or if the divisor is 0."""
    assert math.isnan(figure((1.0,), ()).ratio)
    assert math.isnan(figure((0.0,), (5.0,)).ratio)
    assert math.isnan(figure((5.0,), (0.0,), more_is_better=True).ratio)


def test_spread_is_a_share_of_the_median() -> None:
    assert spread([9.0, 10.0, 12.0]) == pytest.approx(0.3)
    assert spread([7.0]) == 0.0
    assert spread([0.0, 0.0]) == 0.0


def test_a_quantile_is_one_of_the_values() -> None:
    hundred = [float(number) for number in range(100, 0, -1)]

    assert quantile(hundred, 0.5) == 51
    assert quantile(hundred, 0.99) == 100
    assert quantile([7.0], 0.99) == 7.0
    assert quantile([], 0.5) == 0.0


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (66_412.3, "66,400"), (879.4, "879"), (14.62, "14.6"), (9.996, "10.0"), (1.483, "1.48"), (0.11449, "0.114"),
        (999.6, "1,000"), (0.0, "0"), (-2.347, "-2.35"), (math.nan, ""), (0.0042, "0.004"), (0.0001, "0"),
    ],
)  # fmt: skip
def test_numbers_have_three_significant_digits(value: float, shown: str) -> None:
    assert rounded(value) == shown
