"""The output of commands: tables for people, one JSON object a line for programs.

On a terminal, tables fit its width: cells wrap between words, never within one, so that names can be copied. If that is
not enough, each row becomes a block of lines. In a file or a pipe, rows are not wrapped.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from pybroker.cli.terminal_escape import escape_controls

Row = Mapping[str, object]

#: Control characters that JSON does not escape, and old terminals execute.
_STEERING = re.compile("[\x7f-\x9f]")
#: Names are not truncated below this width; columns are dropped instead.
_SHORTEST_NAME = 16
_CUT = ".."
_BETWEEN_COLUMNS = "  "
#: Where a text may wrap.
_BETWEEN_WORDS = re.compile("(?<=[ ,])")


def show(rows: Iterable[Row], *, as_json: bool) -> None:
    """Print rows with the same keys, as a table with the keys as headings, or as JSON."""
    if as_json:
        for row in rows:
            line = json.dumps(row, ensure_ascii=not _is_unicode())
            print(_STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", line), flush=True)
        return
    for line in table(list(rows), shutil.get_terminal_size().columns if sys.stdout.isatty() else None):
        print(line)


def _is_unicode() -> bool:
    return sys.stdout.encoding.lower().replace("-", "") == "utf8"


def table(rows: Sequence[Row], room: int | None = None) -> list[str]:
    """Return the lines of a table, with numbers aligned right; no lines without rows.

    Args:
        room: the longest line; None for no limit.
    """
    if not rows:
        return []
    columns = list(rows[0])
    cells = [[_cell(row[column]) for column in columns] for row in rows]
    headings = [column.upper().replace("_", " ") for column in columns]
    widths = [max(map(_width, column)) for column in zip(headings, *cells, strict=True)]
    if room is not None and not (widths := _narrowed(widths, headings, cells, room)):
        return _blocks(headings, cells, room)
    right = [all(row[column] is None or type(row[column]) is int for row in rows) for column in columns]
    return [line for each in (headings, *cells) for line in _lines(each, widths, right)]


def _lines(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    """Return the lines of one row of a table."""
    folded = (_folded(text, width) for text, width in zip(texts, widths, strict=True))
    return [
        _BETWEEN_COLUMNS.join(
            f"{' ' * (width - _width(part))}{part}" if at_right else f"{part}{' ' * (width - _width(part))}"
            for part, width, at_right in zip(parts, widths, right, strict=True)
        ).rstrip()
        for parts in zip_longest(*folded, fillvalue="")
    ]


def _narrowed(widths: Sequence[int], headings: Sequence[str], cells: Sequence[Sequence[str]], room: int) -> list[int]:
    """Return column widths that fit together, with wide columns narrowed; none if the words do not fit."""
    columns = list(zip(headings, *cells, strict=True))
    words = [max(_width(word.rstrip()) for text in column for word in _BETWEEN_WORDS.split(text)) for column in columns]
    left = room - len(_BETWEEN_COLUMNS) * (len(columns) - 1)
    for limit in range(left, 0, -1):
        found = [min(width, max(limit, word)) for width, word in zip(widths, words, strict=True)]
        if sum(found) <= left:
            return found
    return []


def _folded(text: str, width: int) -> list[str]:
    """Wrap a text into lines of this width; only a longer word exceeds it."""
    lines = [""]
    for word in _BETWEEN_WORDS.split(text) if _width(text) > width else (text,):
        if lines[-1] and _width(lines[-1]) + _width(word.rstrip()) > width:
            lines.append("")
        lines[-1] += word
    return [line.rstrip() for line in lines]


def _width(text: str) -> int:
    """Return a text's width on a terminal: East Asian characters have two columns, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in ("W", "F")) for each in text
    )


def _blocks(headings: Sequence[str], cells: Sequence[Sequence[str]], room: int) -> list[str]:
    """Return each row as a block of lines, with a heading and a cell each."""
    width = max(map(len, headings))
    behind = max(1, room - width - len(_BETWEEN_COLUMNS))
    lines: list[str] = []
    for row in cells:
        if lines:
            lines.append("")
        for heading, text in zip(headings, row, strict=True):
            first, *others = _folded(text, behind)
            lines += (
                f"{heading:{width}}{_BETWEEN_COLUMNS}{first}".rstrip(),
                *(f"{'':{width + 2}}{each}" for each in others),
            )
    return lines


def table_within(width: int, rows: Sequence[Row], less_wanted: Sequence[str]) -> list[str]:
    """Return a table that fits: truncate names in the first column, and drop less important columns."""
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


def print_line(line: str) -> None:
    """Print a line, with control characters of names escaped."""
    print(escape_controls(line))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, list | tuple):
        return ",".join(map(_cell, value)) or "-"
    if isinstance(value, Mapping):
        return " ".join(escape_controls(f"{key}={each}") for key, each in value.items()) or "-"
    return str(value).lower() if isinstance(value, bool) else escape_controls(str(value))
