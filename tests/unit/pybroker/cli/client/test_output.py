"""Tables and lines of JSON."""

from __future__ import annotations

import pytest

from pybroker.cli.client.output import show, table

ROWS = [
    {"topic": "a", "end_offset": 5, "isr": [1, 2], "own": {}, "internal": False},
    {"topic": "longer", "end_offset": None, "isr": [], "own": {"a": "b"}, "internal": True},
]


def test_table_has_columns_as_wide_as_what_is_in_them() -> None:
    """Numbers at the right; nothing is a dash."""
    assert table(ROWS) == [
        "TOPIC   END OFFSET  ISR  OWN  INTERNAL",
        "a                5  1,2  -    false",
        "longer           -  -    a=b  true",
    ]
    assert table([]) == []


def test_json_has_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With values as they are."""
    show([{"topic": "ä", "offset": None}, {"topic": "b", "offset": 1}], as_json=True)
    assert capsys.readouterr().out == '{"topic": "ä", "offset": null}\n{"topic": "b", "offset": 1}\n'


def test_names_do_not_steer_the_terminal() -> None:
    """What is not to be seen stands as its number."""
    rows = [{"group": "evil\x1b]0;owned\x07\u202e", "own": {"a": "\n"}, "isr": ["\r"], "name": "ä b"}]
    assert table(rows)[1] == r"evil\x1b]0;owned\x07\u202e  a=\n  \r   ä b"
