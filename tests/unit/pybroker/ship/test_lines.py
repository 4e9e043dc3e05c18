"""Bytes split into lines: read in pieces of any size, bounded in length, unchanged."""

from __future__ import annotations

import pytest

from pybroker.ship.lines import Line, LineSplitter

DATA = b"one\n\n\xff\x00 two\r\nthree"
LINES = [Line(b"one", 0, 4), Line(b"", 4, 5), Line(b"\xff\x00 two\r", 5, 13)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, len(DATA)])
def test_lines_do_not_depend_on_the_pieces(size: int) -> None:
    """Binary lines, empty lines and carriage returns stay unchanged."""
    lines = LineSplitter(100)

    assert [line for at in range(0, len(DATA), size) for line in lines.feed(DATA[at : at + size])] == LINES
    assert lines.line_start == 13
    assert lines.offset == len(DATA)
    assert lines.rest() == Line(b"three", 13, 18)
    assert lines.rest() is None


@pytest.mark.parametrize("size", [1, 4, 100])
def test_long_line_is_cut_and_reported(size: int) -> None:
    """Positions of later lines are those of the file. Memory is bounded meanwhile."""
    lines = LineSplitter(3, offset=10)
    data = b"abcdefgh\nxyz\nlonger"

    found = [line for at in range(0, len(data), size) for line in lines.feed(data[at : at + size])]

    assert found == [Line(b"abc", 10, 19, cut_bytes=5), Line(b"xyz", 19, 23)]
    assert lines.rest() == Line(b"lon", 23, 29, cut_bytes=3)
