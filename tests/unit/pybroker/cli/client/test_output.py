"""Tables and JSON lines."""

from __future__ import annotations

import io
import json
import sys

import pytest

from pybroker.cli.client.output import print_line, show, table, table_within

ROWS = [
    {"topic": "a", "end_offset": 5, "isr": [1, 2], "own": {}, "internal": False},
    {"topic": "longer", "end_offset": None, "isr": [], "own": {"a": "b"}, "internal": True},
]


def test_columns_fit_their_content() -> None:
    """Numbers are right-aligned; None is a dash."""
    assert table(ROWS) == [
        "TOPIC   END OFFSET  ISR  OWN  INTERNAL",
        "a                5  1,2  -    false",
        "longer           -  -    a=b  true",
    ]
    assert table([]) == []


def test_json_has_an_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"topic": "ä", "offset": None}, {"topic": "b", "offset": 1}], as_json=True)
    assert capsys.readouterr().out == '{"topic": "ä", "offset": null}\n{"topic": "b", "offset": 1}\n'


def test_control_characters_in_tables_are_escaped() -> None:
    rows = [{"group": "evil\x1b]0;owned\x07\u202e", "own": {"a": "\n"}, "isr": ["\r"], "name": "ä b"}]
    assert table(rows)[1] == r"evil\x1b]0;owned\x07\u202e  a=\n  \r   ä b"


def test_control_characters_in_lines_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """So are line breaks. JSON is the same on terminals and pipes."""
    print_line("deleted evil\x1b[31m\nname")
    show([{"group": "a\x9b31m\x7f"}], as_json=True)
    line, row = capsys.readouterr().out.splitlines()
    assert line == r"deleted evil\x1b[31m\nname"
    assert row == r'{"group": "a\u009b31m\u007f"}'
    assert json.loads(row) == {"group": "a\x9b31m\x7f"}


TOPICS = [
    {"topic": "orders-of-the-whole-year", "partitions": 3, "records": 1000, "lag": 5},
    {"topic": "b", "partitions": 12, "records": 7, "lag": None},
]


@pytest.mark.parametrize("width", range(10, 80))
def test_table_is_cut_to_the_terminals_width(width: int) -> None:
    """The most important column stays as long as there is room for a name."""
    lines = table_within(width, TOPICS, ("partitions", "records"))
    assert len(lines) == 3
    assert max(map(len, lines)) <= width
    assert ("PARTITIONS" in lines[0]) is (width >= 16 + 2 + 10 + 2 + 7 + 2 + 3)
    assert ("RECORDS" in lines[0]) is (width >= 16 + 2 + 7 + 2 + 3)
    assert ("LAG" in lines[0]) is (width >= 5 + 2 + 3)


def test_long_names_are_cut_with_a_mark() -> None:
    """If all fit, nothing is cut."""
    assert table_within(30, TOPICS, ("partitions", "records")) == [
        "TOPIC             RECORDS  LAG",
        "orders-of-the-..     1000    5",
        "b                       7    -",
    ]
    assert table_within(80, TOPICS, ("partitions", "records")) == table(TOPICS)
    assert table_within(80, [], ()) == []


def test_wide_characters_take_two_columns() -> None:
    """Combining characters take none."""
    rows = [{"group": "\u6ce8\u6587", "lag": 1}, {"group": "e\u0301te\u0301", "lag": 20}]
    assert table(rows) == ["GROUP  LAG", "\u6ce8\u6587     1", "e\u0301te\u0301     20"]
    listed = [{"group": "\u6ce8\u6587,\u6ce8\u6587", "lag": 1}]
    assert table(listed, 12) == ["GROUP    LAG", "\u6ce8\u6587,      1", "\u6ce8\u6587"]


MEMBERS = [
    {"member": "consumer-shop-1-4b1c", "lag": 12345, "partitions": ["orders-0", "orders-1", "orders-2"]},
    {"member": "b", "lag": None, "partitions": []},
]


def test_texts_are_wrapped_on_a_narrow_terminal() -> None:
    """Between words. Names and numbers stay whole."""
    assert table(MEMBERS, 55) == table(MEMBERS)
    assert table(MEMBERS, 40) == [
        "MEMBER                  LAG  PARTITIONS",
        "consumer-shop-1-4b1c  12345  orders-0,",
        "                             orders-1,",
        "                             orders-2",
        "b                         -  -",
    ]


def test_rows_become_blocks_on_a_very_narrow_terminal() -> None:
    """Lists are wrapped too. The terminal wraps a name longer than a line."""
    assert table(MEMBERS, 38) == [
        "MEMBER      consumer-shop-1-4b1c",
        "LAG         12345",
        "PARTITIONS  orders-0,orders-1,orders-2",
        "",
        "MEMBER      b",
        "LAG         -",
        "PARTITIONS  -",
    ]
    assert table(MEMBERS, 30)[:4] == [
        "MEMBER      consumer-shop-1-4b1c",
        "LAG         12345",
        "PARTITIONS  orders-0,orders-1,",
        "            orders-2",
    ]


@pytest.mark.parametrize("room", range(1, 80))
@pytest.mark.parametrize("rows", [ROWS, MEMBERS, TOPICS], ids=["topics", "members", "rates"])
def test_no_word_is_lost_at_any_width(rows: list[dict[str, object]], room: int) -> None:
    """No line exceeds the width, or the longest heading with the longest name."""
    lines = table(rows, room)
    assert max(map(len, lines)) <= max(room, len("PARTITIONS  orders-of-the-whole-year"))
    expected = "".join(lines)
    assert all(word in expected for line in table(rows) for text in line.split() for word in text.split(","))


@pytest.mark.parametrize("on_terminal", [True, False])
def test_tables_are_not_cut_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], on_terminal: bool
) -> None:
    """In a file or pipe a row is a line."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: on_terminal)
    show(MEMBERS, as_json=False)
    assert capsys.readouterr().out.splitlines() == table(MEMBERS, 40 if on_terminal else None)


@pytest.mark.parametrize(
    ("encoding", "expected"), [("utf-8", '"\xc3\xa4"'), ("ascii", '"\\u00e4"'), ("latin-1", '"\\u00e4"')]
)
def test_json_is_valid_in_any_encoding(monkeypatch: pytest.MonkeyPatch, encoding: str, expected: str) -> None:
    """Characters beyond ASCII are only escaped if the encoding is not UTF-8."""
    output = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", output)
    show([{"group": "\xe4"}], as_json=True)
    assert output.buffer.getvalue() == f'{{"group": {expected}}}\n'.encode("latin-1")  # type: ignore[attr-defined]
