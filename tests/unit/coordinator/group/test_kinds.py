"""The table of the kinds of groups."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.group.consumer.kind import CONSUMER
from coordinator.group.kinds import CLASSIC, GROUP_KINDS, LAZY_KINDS
from coordinator.group.modern.group import ModernGroup
from coordinator.group.share.kind import SHARE
from coordinator.group.streams.kind import STREAMS

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


@pytest.mark.parametrize("name", LAZY_KINDS)
def test_a_lazy_kind_names_all_types_of_its_records(name: str) -> None:
    """A record of a type that is missing would be ignored as unknown."""
    kind = LAZY_KINDS[name]
    assert kind.load() is ROWS[name]
    assert ROWS[name].record_class is not None
    assert set(kind.record_types) == set(ROWS[name].record_class.kinds)


def test_a_kind_is_imported_with_the_first_of_its_records() -> None:
    """In a process that has loaded no group yet, as a broker that has just started."""
    program = """
import sys
from coordinator.group.kinds import GROUP_KINDS, parse_record
packages = ("consumer", "share", "streams")
def show():
    print([name for name in packages if f"coordinator.group.{name}.group" in sys.modules])
show()
record = parse_record(b"\\0\\x11\\0\\1g", None)
group = GROUP_KINDS.group_class(record)("g")
print(GROUP_KINDS.of(group).group_class.__name__)
show()
"""
    root = GROUP.parents[1]
    ran = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["[]", "StreamsGroup", "['streams']"]
