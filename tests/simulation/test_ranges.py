"""The table of seeds that were run."""

from __future__ import annotations

import pytest

from tests.simulation.ranges import HEAD, Range, add

PAGE = "\n".join(["Seeds:", "", *HEAD, "| 0 | 3,999 | abc | each in half | none |", "", "## Checks", ""])


def test_adjacent_range_extends_a_row() -> None:
    page = add(PAGE, Range(4_000, 4_999, "abc", "each in half"))
    assert page == PAGE.replace("3,999", "4,999")


@pytest.mark.parametrize(
    "other", [Range(5_000, 5_999, "abc", "own"), Range(4_000, 4_999, "def", "each in half", ("seed 4100: I1",))]
)
def test_other_range_is_a_row_of_its_own(other: Range) -> None:
    lines = add(PAGE, other).splitlines()
    assert lines.index(other.row) == lines.index("## Checks") - 2


def test_failures_of_a_range_stay_in_its_row() -> None:
    page = add(PAGE, Range(4_000, 4_999, "abc", "each in half", ("seed 4100: I1", "seed 4200: I2")))
    page = add(page, Range(5_000, 5_999, "abc", "each in half", ("seed 5100: L",)))
    assert "| 0 | 5,999 | abc | each in half | seed 4100: I1; seed 4200: I2; seed 5100: L |" in page


def test_page_without_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="not in list"):
        add("no table\n", Range(0, 1, "abc", "own"))
