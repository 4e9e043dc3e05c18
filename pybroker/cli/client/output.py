"""What commands print: tables for people, an object a line for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

Row = Mapping[str, object]


def show(rows: Iterable[Row], *, as_json: bool) -> None:
    """Print rows of the same keys: as a table whose headings are the keys, or as JSON."""
    if as_json:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False), flush=True)
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


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, list | tuple):
        return ",".join(map(_cell, value)) or "-"
    if isinstance(value, Mapping):
        return " ".join(_harmless(f"{key}={each}") for key, each in value.items()) or "-"
    return str(value).lower() if isinstance(value, bool) else _harmless(str(value))


def _harmless(text: str) -> str:
    r"""Without what would steer a terminal: names are whatever a client has chosen. Instead there is \xNN or \uNNNN."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
