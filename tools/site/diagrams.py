"""Diagrams as SVG within a page: rows of bytes, states with their transitions, trees, offsets. They need no script."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tools.site.layouts import LayoutField

_GAP = 46
_CELL = 26
_WIDTH = 720
_BYTE = 22
_CHARACTER = 7.6
_ROW = 64
_BOX = 40
_STYLE = "max-width:100%;height:auto;color:var(--md-default-fg-color)"
_FONT = 'font-family="monospace" font-size="12" fill="currentColor" text-anchor="middle"'
_LINE = 'fill="none" stroke="currentColor"'
_ARROW_HEAD = (
    "<defs><marker id='arrow' viewBox='0 0 8 8' refX='8' refY='4' markerWidth='8' markerHeight='8'"
    " markerUnits='userSpaceOnUse' orient='auto'><path d='M0 0L8 4L0 8z' fill='currentColor'/></marker></defs>"
)


def bytes_diagram(fields: Sequence[LayoutField]) -> str:
    """Return boxes in rows: name, type, and the byte where a field begins if that is fixed.

    Dashed boxes have variable lengths.
    """
    shapes, x, y = [], 0.0, 16
    start: int | None = 0
    for field in fields:
        size = field.size_bytes
        width = max((size or 4) * _BYTE, len(field.name) * _CHARACTER + 10, len(field.kind) * _CHARACTER + 10)
        if x + width > _WIDTH:
            x, y = 0.0, y + _ROW
        middle = x + width / 2
        dashes = "" if size is not None else ' stroke-dasharray="4 3"'
        shapes.append(f'<rect x="{x + 0.5:.1f}" y="{y}" width="{width:.1f}" height="{_BOX}" {_LINE}{dashes}/>')
        shapes.append(f'<text x="{middle:.1f}" y="{y + 17}">{escape(field.name)}</text>')
        shapes.append(f'<text x="{middle:.1f}" y="{y + 33}" opacity="0.65">{escape(field.kind or "bytes")}</text>')
        if start is not None:
            shapes.append(f'<text x="{x + 2:.1f}" y="{y - 4}" opacity="0.65" text-anchor="start">{start}</text>')
        start = None if start is None or size is None else start + size
        x += width
    return _svg(_WIDTH + 2, y + _BOX + 4, shapes, ", ".join(field.name for field in fields))


@dataclass(frozen=True, slots=True)
class Column:
    """Cells one below the other. `way`: the cells that a search visits, the last one being its result.
    `points_at`: for each cell, the cell of the next column that it points at, if any.
    """

    heading: str
    cells: Sequence[str]
    way: Sequence[int]
    points_at: Sequence[int | None] = ()


def pointers_diagram(columns: Sequence[Column]) -> str:
    """Return columns side by side, with arrows between cells; the path of the search is thick."""
    shapes, x = [_ARROW_HEAD], 0.0
    for number, column in enumerate(columns):
        width = max(map(len, (column.heading, *column.cells))) * _CHARACTER + 16
        shapes.append(f'<text x="{x + width / 2:.1f}" y="14" font-weight="bold">{escape(column.heading)}</text>')
        for row, cell in enumerate(column.cells):
            thick = ' stroke-width="2.5"' if row in column.way else ' opacity="0.55"'
            shapes.append(
                f'<rect x="{x + 2:.1f}" y="{_top(row)}" width="{width - 4:.1f}" height="{_CELL}" {_LINE}{thick}/>'
            )
            shapes.append(f'<text x="{x + width / 2:.1f}" y="{_top(row) + 17}">{escape(cell)}</text>')
        if number + 1 < len(columns):
            on = {(column.way[-1], columns[number + 1].way[0])}
            pointers = {(row, target) for row, target in enumerate(column.points_at) if target is not None}
            for row, target in sorted(pointers | on):
                thick = ' stroke-width="2.5"' if (row, target) in on else ' opacity="0.55"'
                start, end = _top(row) + _CELL / 2, _top(target) + _CELL / 2
                shapes.append(
                    f'<path d="M{x + width:.1f} {start}L{x + width + _GAP:.1f} {end}" {_LINE}{thick} '
                    f'marker-end="url(#arrow)"/>'
                )
        x += width + _GAP
    rows = max(len(column.cells) for column in columns)
    return _svg(round(x - _GAP) + 2, _top(rows), shapes, " -> ".join(column.heading for column in columns))


def _top(row: int) -> int:
    return 24 + row * (_CELL + 8)


@dataclass(frozen=True, slots=True)
class Tree:
    """A node with its children."""

    name: str
    inner: Sequence[Tree] = ()


def tree_diagram(trees: Sequence[Tree]) -> str:
    """Return nodes from left to right, with lines from each to its children."""
    widths = [max(map(len, names)) * _CHARACTER + 16 for names in _by_depth(trees)]
    shapes: list[str] = []
    row = 0

    def draw(tree: Tree, depth: int) -> float:
        """Draw a tree; return the middle of its box, which is at the height of its first child."""
        nonlocal row
        x, y = sum(widths[:depth]) + depth * _GAP, 4 + row * (_CELL + 6)
        width, middle = len(tree.name) * _CHARACTER + 16, y + _CELL / 2
        shapes.append(f'<rect x="{x + 1:.1f}" y="{y}" width="{width:.1f}" height="{_CELL}" rx="4" {_LINE}/>')
        shapes.append(f'<text x="{x + 1 + width / 2:.1f}" y="{y + 17}">{escape(tree.name)}</text>')
        bend = x + widths[depth] + _GAP / 2
        for each in tree.inner:
            to = draw(each, depth + 1)
            start = x + 1 + width if to == middle else bend
            shapes.append(
                f'<path d="M{start:.1f} {middle}H{bend:.1f}V{to}H{bend + _GAP / 2:.1f}" {_LINE} opacity="0.55"/>'
            )
        row += 0 if tree.inner else 1
        return middle

    for tree in trees:
        draw(tree, 0)
    names = ", ".join(tree.name for tree in trees)
    return _svg(round(sum(widths) + (len(widths) - 1) * _GAP) + 4, 4 + row * (_CELL + 6), shapes, names)


def _by_depth(trees: Sequence[Tree]) -> list[list[str]]:
    """Return the names of nodes by depth."""
    inner = [each for tree in trees for each in tree.inner]
    return [[tree.name for tree in trees], *(_by_depth(inner) if inner else [])]


@dataclass(frozen=True, slots=True)
class Mark:
    """A named offset."""

    name: str
    offset: int


def offsets_diagram(count: int, marks: Sequence[Mark]) -> str:
    """Return a row of offsets from 0, and the next one, which has no record yet; marks point at theirs."""
    shapes = [_ARROW_HEAD]
    for offset in range(count + 1):
        dashes = ' stroke-dasharray="4 3" opacity="0.55"' if offset == count else ""
        shapes.append(f'<rect x="{1 + offset * _BOX}" y="4" width="{_BOX}" height="{_CELL}" {_LINE}{dashes}/>')
        shapes.append(f'<text x="{1 + (offset + 0.5) * _BOX}" y="21">{offset}</text>')
    for number, mark in enumerate(marks):
        x, y = 1 + (mark.offset + 0.5) * _BOX, 62 + 24 * number
        end = x > (count + 1) * _BOX / 2
        shapes.append(f'<path d="M{x} {y}V{4 + _CELL}" {_LINE} opacity="0.8" marker-end="url(#arrow)"/>')
        anchor, by = ("end", -6) if end else ("start", 6)
        shapes.append(f'<text x="{x + by}" y="{y}" text-anchor="{anchor}">{escape(mark.name)}: {mark.offset}</text>')
    title = ", ".join(f"{mark.name} {mark.offset}" for mark in marks)
    return _svg((count + 1) * _BOX + 2, 70 + 24 * (len(marks) - 1), shapes, title)


def states_diagram(froms: Mapping[str, Sequence[str]]) -> str:
    """Return states on an ellipse with arrows to their successors. `froms`: state -> its predecessors."""
    names = list(froms)
    box = max(map(len, names)) * _CHARACTER + 16
    across, down = (_WIDTH - box) / 2 - 10, 60 + 22 * len(names)
    center = (_WIDTH / 2, down + 40)
    places = {}
    for number, name in enumerate(names):
        angle = 2 * math.pi * number / len(names) - math.pi / 2
        places[name] = (center[0] + across * math.cos(angle), center[1] + down * math.sin(angle))
    shapes = [_ARROW_HEAD]
    for name, before in froms.items():
        shapes += (_arrow(places[each], places[name], box) for each in before if each != name)
    for name, (x, y) in places.items():
        thick = ' stroke-width="3"' if name in froms[name] else ""
        shapes.append(
            f'<rect x="{x - box / 2:.1f}" y="{y - 16:.1f}" width="{box:.1f}" height="32" rx="8" '
            f'fill="var(--md-default-bg-color)" stroke="currentColor"{thick}/>'
        )
        shapes.append(f'<text x="{x:.1f}" y="{y + 4:.1f}">{escape(name)}</text>')
    return _svg(_WIDTH, round(center[1] + down + 40), shapes, f"States: {', '.join(names)}")


def _arrow(start: tuple[float, float], end: tuple[float, float], box: float) -> str:
    """Return a curve to the right of the straight line, so that the reverse arrow is separate; it ends at the boxes."""
    middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    length = math.dist(start, end)
    bend = 22 / length
    by = (middle[0] - (end[1] - start[1]) * bend, middle[1] + (end[0] - start[0]) * bend)
    first, last = _edge(start, by, box), _edge(end, by, box)
    return (
        f'<path d="M{first[0]:.1f} {first[1]:.1f}Q{by[0]:.1f} {by[1]:.1f} {last[0]:.1f} {last[1]:.1f}" '
        f'{_LINE} opacity="0.8" marker-end="url(#arrow)"/>'
    )


def _edge(place: tuple[float, float], towards: tuple[float, float], box: float) -> tuple[float, float]:
    """Return the point where the line from the middle of a box leaves the box."""
    x, y = towards[0] - place[0], towards[1] - place[1]
    part = min(box / 2 / abs(x) if x else math.inf, 16 / abs(y) if y else math.inf)
    return place[0] + x * part, place[1] + y * part


def _svg(width: float, height: float, shapes: Sequence[str], title: str) -> str:
    head = f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" style="{_STYLE}" {_FONT}>'
    return f"\n<figure>{head}<title>{escape(title)}</title>{''.join(shapes)}</svg></figure>\n\n"
