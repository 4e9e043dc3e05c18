"""The columns, and how they are chosen."""

from __future__ import annotations

import pytest

from pybroker.source.columns import COLUMNS, USUAL, chosen_columns
from pybroker.source.errors import UnusableOption


def test_headers_come_where_they_are_asked_for() -> None:
    assert chosen_columns(None) == USUAL == COLUMNS[:-1]
    assert chosen_columns(None, headers=True) == COLUMNS


def test_columns_come_in_the_order_of_the_choice_whatever_the_case() -> None:
    assert chosen_columns([" Value", "timestamptype", "OFFSET "]) == ("value", "timestampType", "offset")


@pytest.mark.parametrize(("names", "said"), [([], "no column"), (["key", "KEY"], "twice"), (["vlaue"], "'vlaue'")])
def test_choice_that_makes_no_sense_is_refused(names: list[str], said: str) -> None:
    with pytest.raises(UnusableOption, match=said):
        chosen_columns(names)
