"""The picture that `make bench` writes."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from bench.comparison.figures import Category, Figure
from bench.comparison.picture import lengths, picture

SVG = "{http://www.w3.org/2000/svg}"
FIGURES = [
    Figure(Category.CPU, "small", "CPU us a request", (14.0, 15.0, 14.6), (21.0, 21.6, 29.2)),
    Figure(Category.RATE, "a < b", "requests a second", (66_400.0,), (33_200.0,), more_is_better=True),
    Figure(Category.MEMORY, "idle", "MB", (35.0,)),
]


def texts(svg: ElementTree.Element) -> list[str]:
    return [each.text or "" for each in svg.iter(f"{SVG}text")]


def test_each_axis_that_has_figures_has_a_chart() -> None:
    found = texts(ElementTree.fromstring(picture(FIGURES)))

    titles = {category.value for category in Category}
    assert [text for text in found if text in titles] == [
        "Memory",
        "Processor time",
        "Rates",
    ]


def test_bars_are_in_proportion_and_have_their_medians_beside() -> None:
    svg = ElementTree.fromstring(picture(FIGURES[:1]))

    ours, kafka = [each for each in svg.iter(f"{SVG}rect") if each.get("height") == "11" and each.get("width") != "11"]
    assert float(ours.get("width", "0")) / float(kafka.get("width", "0")) == pytest.approx(14.6 / 21.6, abs=0.001)
    assert {"14.6", "21.6", "small: CPU us a request"} <= set(texts(svg))


def test_everything_lies_within_the_picture() -> None:
    """Names may hold reserved characters of XML."""
    svg = ElementTree.fromstring(picture(FIGURES))

    width, height = float(svg.get("width", "0")), float(svg.get("height", "0"))
    for each in svg.iter():
        assert 0 <= float(each.get("x", "0")) + float(each.get("width", "0") if each is not svg else 0) <= width
        assert 0 <= float(each.get("y", "0")) <= height
    assert "a < b: requests a second" in texts(svg)


def test_the_longest_bar_fills_the_width() -> None:
    """Values that are all 0 give bars too."""
    shorter, longer = lengths([1.0, 4.0])

    assert longer == 4 * shorter
    assert lengths([0.0, 0.0]) == [0.0, 0.0]
