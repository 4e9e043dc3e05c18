"""The parts of a trace, and their output: lines for people, or a JSON object for each step."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tools.data.java_text import JsonValue
from tools.wire.traces.fields import FieldSpan

#: The shown bytes of a field; JSON has all.
_SHOWN_BYTES = 12
_SHOWN_CHARACTERS = 100
_NAME, _BYTES, _PLACE, _TITLE = "\x1b[1m", "\x1b[36m", "\x1b[2m", "\x1b[1;33m"
_PLAIN = "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Row:
    """A fact that a step shows; `data` at `position` of a frame or a file are its bytes, if it has any.

    `text`: shown to people instead of the value.
    """

    name: str
    value: JsonValue
    position: int | None = None
    data: bytes | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step: `kind` for programs (frame, decode, checks, append, ...), a title and an explanation for people."""

    kind: str
    title: str
    about: str
    rows: tuple[Row, ...]


def rows_of(pieces: Iterable[FieldSpan], buffer: bytes) -> tuple[Row, ...]:
    """Return the rows of pieces of a message or a batch, with their bytes."""
    return tuple(
        Row(each.path, each.value, each.position, buffer[each.position : each.position + each.size]) for each in pieces
    )


def as_json(step: Step) -> str:
    """Return the line for programs."""
    rows: list[JsonValue] = []
    for row in step.rows:
        fields: dict[str, JsonValue] = {"name": row.name, "value": row.value}
        if row.data is not None:
            fields |= {"position": row.position, "hex": row.data.hex()}
        rows.append(fields)
    fields = {"type": "step", "step": step.kind, "title": step.title, "about": step.about, "rows": rows}
    return json.dumps(fields, separators=(",", ":"))


def as_text(number: int, step: Step, *, colour: bool) -> Iterator[str]:
    """Yield the lines for people."""

    def paint(code: str, text: str) -> str:
        return f"{code}{text}{_PLAIN}" if colour and text.strip() else text

    yield paint(_TITLE, f"{number}. {step.title}")
    if step.about:
        yield f"   {step.about}"
    hexes = [_hex(row.data) for row in step.rows]
    wide = max(map(len, hexes), default=0)
    names = max((len(row.name) for row in step.rows), default=0)
    for row, data in zip(step.rows, hexes, strict=True):
        place = "" if row.position is None else str(row.position)
        bytes_shown = f"{paint(_PLACE, f'{place:>5}')}  {paint(_BYTES, f'{data:<{wide}}')}  " if wide else ""
        yield f"   {bytes_shown}{paint(_NAME, f'{row.name:<{names}}')}  {_text(row)}".rstrip()
    yield ""


def _hex(data: bytes | None) -> str:
    if data is None:
        return ""
    if len(data) <= _SHOWN_BYTES:
        return data.hex(" ")
    return f"{data[: _SHOWN_BYTES - 3].hex(' ')} .. +{len(data) - _SHOWN_BYTES + 3}"


def _text(row: Row) -> str:
    value = row.value if row.text is None else row.text
    text = value if isinstance(value, str) else "null" if value is None else json.dumps(value, ensure_ascii=False)
    text = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
    return text if row.data is None or len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
