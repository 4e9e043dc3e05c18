"""Draw charts as SVG for an HTML page: stacked bars over time, and bars side by side with their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

COLOURS = ("#2f6f9f", "#6aa84f", "#e69138", "#cc4125", "#8e7cc3")

_WIDTH = 760
_HEIGHT = 240
_LEFT, _BOTTOM, _TOP = 56, 34, 24
_ROW = 24


def stacked(name: str, columns: Sequence[str], series: Mapping[str, Sequence[float]]) -> str:
    """Return a chart with a bar for each column, of one part for each series, with scale and legend."""
    sums = [sum(values) for values in zip(*series.values(), strict=True)]
    top = max(sums, default=0) or 1
    step = (_WIDTH - _LEFT) / max(1, len(columns))
    parts = [_axis(top)]
    floors = [0.0] * len(columns)
    for colour, (part, values) in zip(COLOURS, series.items(), strict=False):
        for index, value in enumerate(values):
            height, below = _scaled(value, top), _scaled(floors[index], top)
            x, y = _LEFT + index * step, _HEIGHT - _BOTTOM - below - height
            title = f"<title>{escape(columns[index])}, {escape(part)}: {value:,.0f}</title>"
            parts.append(_rectangle(x + step * 0.1, y, step * 0.8, height, colour, title))
            floors[index] += value
    every = max(1, len(columns) // 8)
    for index in range(0, len(columns), every):
        parts.append(_text(_LEFT + (index + 0.5) * step, _HEIGHT - _BOTTOM + 16, columns[index], "middle"))
    for index, (colour, part) in enumerate(zip(COLOURS, series, strict=False)):
        parts.append(_rectangle(_LEFT + index * 90, 4, 12, 12, colour))
        parts.append(_text(_LEFT + 17 + index * 90, 14, part))
    return _svg(name, _HEIGHT, parts)


def ranked(name: str, rows: Sequence[tuple[str, float]], colour: str = COLOURS[0]) -> str:
    """Return a chart with a bar for each row, beside its name and value."""
    most = max((value for _, value in rows), default=0) or 1
    parts = []
    for index, (row, value) in enumerate(rows):
        y, width = index * _ROW, (_WIDTH - 300) * value / most
        parts.append(_text(190, y + 16, row, "end"))
        parts.append(_rectangle(200, y + 3, width, _ROW - 6, colour))
        parts.append(_text(206 + width, y + 16, f"{value:,.0f}"))
    return _svg(name, max(1, len(rows)) * _ROW, parts)


def _scaled(value: float, top: float) -> float:
    return (_HEIGHT - _BOTTOM - _TOP) * value / top


def _axis(top: float) -> str:
    lines = []
    for quarter in range(5):
        value = top * quarter / 4
        y = _HEIGHT - _BOTTOM - _scaled(value, top)
        lines.append(f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        lines.append(_text(_LEFT - 6, y + 4, f"{value:,.0f}", "end"))
    return "".join(lines)


def _rectangle(x: float, y: float, width: float, height: float, colour: str, inside: str = "") -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}">{inside}</rect>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(name: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" role="img" '
        f'aria-label="{escape(name)}" font-family="sans-serif" font-size="12">{"".join(parts)}</svg>'
    )
