"""The table of the kinds of groups."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coordinator.group.kinds import CLASSIC, CONSUMER, GROUP_KINDS, SHARE, STREAMS
from coordinator.group.modern.group import ModernGroup

GROUP = Path(__file__).parents[4] / "coordinator" / "group"
ROWS = {"classic": CLASSIC, "consumer": CONSUMER, "streams": STREAMS, "share": SHARE}


@pytest.mark.parametrize("name", ROWS)
def test_a_kind_names_each_of_its_deadlines(name: str) -> None:
    """A deadline that is missing in the row would not be cancelled with its group."""
    sources = [path.read_text() for path in (GROUP / name).glob("*.py")]
    scheduled = {kind for text in sources for kind in re.findall(r'(?:TimerKey|act_soon)\(\s*"(\w+)"', text)}

    assert ROWS[name].group_class.group_type == name
    assert scheduled <= {*ROWS[name].group_timers, *ROWS[name].member_timers}


@pytest.mark.parametrize("name", ROWS)
def test_a_group_is_found_by_its_class_and_by_its_records(name: str) -> None:
    row = ROWS[name]
    assert GROUP_KINDS.of(row.group_class("g")) is row
    if row.record_class is not None:
        assert issubclass(row.group_class, ModernGroup)
        assert GROUP_KINDS.group_class(row.record_class.tombstone("g", row.record_class.group_type)) is row.group_class
