"""What commands print: tables for people, an object a line for programs.

On a terminal tables have no longer lines than it has room for: texts go on below between their words, never within one,
so that names can be copied; and where that is not enough, each row is a block of lines. Elsewhere they are whole.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from pybroker.cli.terminal_escape import harmless

Row = Mapping[str, object]

#: What JSON leaves as it is, and an old terminal obeys.
_STEERING = re.compile("[\x7f-\x9f]")
#: A name is not cut to less: rather columns are left out.
_SHORTEST_NAME = 16
_CUT = ".."
_BETWEEN_COLUMNS = "  "
#: Where a text may go on below.
_BETWEEN_WORDS = re.compile("(?<=[ ,])")


def show(rows: Iterable[Row], *, as_json: bool) -> None:
    """Print rows of the same keys: as a table whose headings are the keys, or as JSON."""
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
    """Lines of a table; numbers stand at the right of their column. Nothing at all where there are no rows.

    Args:
        room: how long a line may be; None: as long as it likes.
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
    """One row of a table."""
    folded = (_folded(text, width) for text, width in zip(texts, widths, strict=True))
    return [
        _BETWEEN_COLUMNS.join(
            f"{' ' * (width - _width(part))}{part}" if at_right else f"{part}{' ' * (width - _width(part))}"
            for part, width, at_right in zip(parts, widths, right, strict=True)
        ).rstrip()
        for parts in zip_longest(*folded, fillvalue="")
    ]


def _narrowed(widths: Sequence[int], headings: Sequence[str], cells: Sequence[Sequence[str]], room: int) -> list[int]:
    """Widths of columns that have room together, wide ones made narrower; none where their words have none."""
    columns = list(zip(headings, *cells, strict=True))
    words = [max(_width(word.rstrip()) for text in column for word in _BETWEEN_WORDS.split(text)) for column in columns]
    left = room - len(_BETWEEN_COLUMNS) * (len(columns) - 1)
    for most in range(left, 0, -1):
        found = [min(width, max(most, word)) for width, word in zip(widths, words, strict=True)]
        if sum(found) <= left:
            return found
    return []


def _folded(text: str, width: int) -> list[str]:
    """Lines that are no longer, unless a word is."""
    lines = [""]
    for word in _BETWEEN_WORDS.split(text) if _width(text) > width else (text,):
        if lines[-1] and _width(lines[-1]) + _width(word.rstrip()) > width:
            lines.append("")
        lines[-1] += word
    return [line.rstrip() for line in lines]


def _width(text: str) -> int:
    """In columns of a terminal: letters of Chinese, Japanese and Korean have two, accents of their own none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in ("W", "F")) for each in text
    )


def _blocks(headings: Sequence[str], cells: Sequence[Sequence[str]], room: int) -> list[str]:
    """Rows as blocks: each cell behind its heading."""
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
