"""Draw samples as SVG: one line per series over time, one below the other.

Of several samples in one pixel the highest is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from tests.soak.samples import SERIES, Sample

_WIDTH, _HEIGHT, _LEFT, _GAP = 900, 130, 70, 50
_LINE, _KILL, _JUDGED = "#2a6fbb", "#d9534f", "#eef4ee"


def picture(samples: Sequence[Sample], kills: Sequence[float], judged_since: float | None = None) -> str:
    """Return the SVG text. `kills` are the seconds of the kills; the range that is judged is shaded."""
    seconds = max(each.seconds for each in samples)
    shapes: list[str] = []
    for number, (name, title) in enumerate(SERIES.items()):
        top = _GAP + number * (_HEIGHT + _GAP)
        if judged_since is not None:
            shapes.append(_shade(top, judged_since / seconds))
        values = [getattr(each, name) for each in samples]
        shapes += _chart(
            title, top, [each.seconds / seconds for each in samples], values, [at / seconds for at in kills]
        )
    height = _GAP + len(SERIES) * (_HEIGHT + _GAP)
    legend = f"{seconds / 60:.0f} minutes; red: kill -9; shaded: must be flat"
    shapes.append(_text(_LEFT, height - 12, legend, 'fill="#666666"'))
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
            f'height="{height}" font-family="sans-serif" font-size="12">',
            f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
            *shapes,
            "</svg>\n",
        )
    )


def _chart(
    title: str, top: float, places: Sequence[float], values: Sequence[float], kills: Sequence[float]
) -> Iterator[str]:
    most = max(values) or 1.0
    width = _WIDTH - 2 * _LEFT
    yield _text(_LEFT, top - 8, title, 'font-weight="bold"')
    for at in kills:
        x = _LEFT + width * at
        yield f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{top + _HEIGHT}" stroke="{_KILL}" stroke-width="0.5"/>'
    for part in (0.0, 0.5, 1.0):
        y = top + _HEIGHT * (1 - part)
        yield f'<line x1="{_LEFT}" y1="{y}" x2="{_WIDTH - _LEFT}" y2="{y}" stroke="#dddddd"/>'
        yield _text(_LEFT - 6, y + 4, f"{most * part:.4g}", 'text-anchor="end"')
    highest: dict[int, float] = {}  # by pixel, because a run of hours has more samples than pixels
    for place, value in zip(places, values, strict=True):
        x = round(width * place)
        highest[x] = max(value, highest.get(x, value))
    points = (f"{_LEFT + x},{top + _HEIGHT * (1 - value / most):.1f}" for x, value in highest.items())
    yield f'<polyline points="{" ".join(points)}" fill="none" stroke="{_LINE}"/>'


def _shade(top: float, since: float) -> str:
    width = _WIDTH - 2 * _LEFT
    x = _LEFT + width * since
    return f'<rect x="{x:.1f}" y="{top}" width="{_LEFT + width - x:.1f}" height="{_HEIGHT}" fill="{_JUDGED}"/>'


def _text(x: float, y: float, text: str, attributes: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{escape(text)}</text>'
