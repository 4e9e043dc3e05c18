"""The page about look-ups, and its drawings."""

from __future__ import annotations

import re

from tools.site.diagrams import Column, pointers_diagram
from tools.site.look_ups import look_ups_page

CELL = re.compile(r"<rect [^>]*?( stroke-width=\"2.5\")?(?: opacity=\"[0-9.]+\")?/><text [^>]*>([^<]*)</text>")


def on_the_way(figure: str) -> list[str]:
    return [text for thick, text in CELL.findall(figure) if thick]


def test_drawn_way_is_that_of_the_steps() -> None:
    """Segment, index entry, the batch before, which is skipped, and the batch with the record."""
    by_offset, by_time = (part.partition("</svg>")[0] for part in look_ups_page().split("\n## ")[1:])

    name, entry, *batches = on_the_way(by_offset)
    assert (name, entry) == ("00000000000000000024.log", "38: byte 432")
    assert batches == ["byte 432: 36 to 38", "byte 540: 39 to 41"]

    name, time, entry, *batches = on_the_way(by_time)
    assert (name, time, entry) == ("00000000000000000024.log 15.7 s", "12.7 s: 38", "38: byte 432")
    assert batches[-1] == "byte 648: 42 to 44, 14.7 s"
    assert len(batches) == 3


def test_arrows_are_pointers_and_the_way() -> None:
    """An arrow that is both is drawn once, bold."""
    figure = pointers_diagram([Column("a", ["1", "2"], [1], [0, 1]), Column("<b>", ["3", "4"], [1])])

    assert len(re.findall('<path d="M[^>]*marker-end', figure)) == 2
    assert len(re.findall('<path d="M[^>]*stroke-width', figure)) == 1
    assert on_the_way(figure) == ["2", "4"]
    assert "&lt;b&gt;" in figure
