"""What commands print: tables for people, an object a line for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from pybroker.cli.harmless import harmless

Row = Mapping[str, object]

#: What JSON leaves as it is, and an old terminal obeys.
_STEERING = re.compile("[\x7f-\x9f]")
#: A name is not cut to less: rather columns are left out.
_SHORTEST_NAME = 16
_CUT = ".."


def show(rows: Iterable[Row], *, as_json: bool) -> None:
    """Print rows of the same keys: as a table whose headings are the keys, or as JSON."""
    if as_json:
        for row in rows:
            line = json.dumps(row, ensure_ascii=False)
            print(_STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", line), flush=True)
        return
    for line in table(list(rows)):
        print(line)


def table(rows: Sequence[Row]) -> list[str]:
    """Lines of a table; numbers stand at the right of their column. Nothing at all where there are no rows."""
    if not rows:
        return []
    columns = list(rows[0])
    cells = [[_cell(row[column]) for column in columns] for row in rows]
    headings = [column.upper().replace("_", " ") for column in columns]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    right = [all(row[column] is None or type(row[column]) is int for row in rows) for column in columns]
    return [
        "  ".join(
            text.rjust(width) if at_right else text.ljust(width)
            for text, width, at_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in (headings, *cells)
    ]


def table_within(width: int, rows: Sequence[Row], less_wanted: Sequence[str]) -> list[str]:
    """A table with no longer lines: names in its first column are cut, and columns left out that are less wanted."""
    for count in range(len(less_wanted) + 1):
        shown = [{key: value for key, value in row.items() if key not in less_wanted[:count]} for row in rows]
        lines = table(shown)
        too_long = max(map(len, lines), default=0) - width
        if too_long <= 0:
            return lines
        name = next(iter(shown[0]))
        longest = max(len(_cell(row[name])) for row in shown)
        room = min(longest, longest - too_long)
        if room >= _SHORTEST_NAME or count == len(less_wanted):
            return [line[:width] for line in table([{**row, name: _cut(_cell(row[name]), room)} for row in shown])]
    return []


def _cut(name: str, room: int) -> str:
    return name if len(name) <= room else name[: max(1, room - len(_CUT))] + _CUT


def tell(line: str) -> None:
    """Print a line with names in it that others have chosen."""
    print(harmless(line))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, list | tuple):
        return ",".join(map(_cell, value)) or "-"
    if isinstance(value, Mapping):
        return " ".join(harmless(f"{key}={each}") for key, each in value.items()) or "-"
    return str(value).lower() if isinstance(value, bool) else harmless(str(value))
