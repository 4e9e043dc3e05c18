"""Draw figures as SVG: a chart for each category, one below the other.

Figures of a category have different units and sizes, so each pair of bars has its own scale: the longer bar fills the
chart, and the values are written beside the bars.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from xml.sax.saxutils import escape

from bench.comparison.figures import Category, Figure, rounded

_WIDTH, _LABELS, _VALUES = 900, 380, 90
_BAR, _ROW, _TITLE, _MARGIN = 11, 34, 40, 20
_LONGEST = _WIDTH - _LABELS - _VALUES - _MARGIN
_OURS, _KAFKA = "#2a6fbb", "#b9b9b9"

_BETTER = {False: "shorter is better", True: "longer is better"}


def picture(figures: Sequence[Figure]) -> str:
    """Return the picture's text; categories without figures have no chart."""
    shapes: list[str] = []
    top = _MARGIN
    for category in Category:
        chosen = [figure for figure in figures if figure.category is category]
        if chosen:
            shapes += _chart(category, chosen, top)
            top += _TITLE + _ROW * len(chosen) + _MARGIN
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" width="{_WIDTH}" height="{top}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{_WIDTH}" height="{top}" fill="white"/>',
            *shapes,
            "</svg>\n",
        )
    )


def _chart(category: Category, figures: Sequence[Figure], top: int) -> Iterator[str]:
    yield _text(_MARGIN, top + 16, category.value, 'font-weight="bold" font-size="15"')
    better = {_BETTER[figure.more_is_better] for figure in figures}
    x = _LABELS
    for name, colour in (("pybroker", _OURS), ("Apache Kafka", _KAFKA)):
        yield f'<rect x="{x}" y="{top + 7}" width="{_BAR}" height="{_BAR}" fill="{colour}"/>'
        yield _text(x + _BAR + 5, top + 17, name)
        x += 110
    yield _text(x, top + 17, ", ".join(sorted(better)), 'fill="#666666"')
    for number, figure in enumerate(figures):
        yield from _bars(figure, top + _TITLE + number * _ROW)


def _bars(figure: Figure, top: int) -> Iterator[str]:
    yield _text(_LABELS - 10, top + 15, f"{figure.load}: {figure.name}", 'text-anchor="end"')
    sides = [(values, colour) for values, colour in ((figure.ours, _OURS), (figure.kafka, _KAFKA)) if values]
    for number, (length, (values, colour)) in enumerate(
        zip(lengths([statistics.median(values) for values, _ in sides]), sides, strict=True)
    ):
        y = top + number * (_BAR + 1)
        yield f'<rect x="{_LABELS}" y="{y}" width="{length:.1f}" height="{_BAR}" fill="{colour}"/>'
        yield _text(_LABELS + length + 5, y + 10, rounded(statistics.median(values)), 'font-size="11"')


def lengths(values: Iterable[float]) -> list[float]:
    """Return the lengths of bars for these values; the largest fills the chart."""
    values = list(values)
    highest = max(values) or 1.0
    return [_LONGEST * value / highest for value in values]


def _text(x: float, y: float, text: str, attributes: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(text)}</text>'
