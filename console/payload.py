"""Keys and values in readable form: JSON, text or hexadecimal as it fits, or Avro with a schema."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Literal

from console.avro import decode
from pybroker.cli.client.avro import AvroError, AvroSchema

Form = Literal["auto", "json", "text", "hex", "avro"]
FORMS: tuple[Form, ...] = ("auto", "json", "text", "hex", "avro")

#: The limits of a value, and of all values of a page.
MOST_BYTES, _MOST_OF_A_PAGE = 20_000, 1_000_000
#: Deeper JSON is shown as it was written: with indentation it may be a thousand times as long.
_DEEPEST = 64
_HEX_ROW = 16


@dataclass(frozen=True, slots=True)
class Payload:
    """The `text` of a value and its `form`: json, text, hex, avro, null or empty. `size_bytes` is of the whole value.

    `problem` is the reason if the value does not have the requested form.
    """

    form: str
    text: str
    size_bytes: int
    is_cut: bool = False
    problem: str = ""


def most_of(records: int) -> int:
    """Return the shown bytes of each value on a page of `records`: browsers hang at some ten MB of text."""
    return min(MOST_BYTES, _MOST_OF_A_PAGE // records)


def payload(
    data: bytes | None, form: Form = "auto", schema: AvroSchema | None = None, limit: int = MOST_BYTES
) -> Payload:
    """Return a key or a value in a form; auto means JSON for objects and lists, text for printable bytes, else hex.

    It is cut to `limit` bytes, or characters of JSON.

    A value that is not JSON, or too deep, falls back to text; one that is not UTF-8 falls back to hexadecimal. One that
    does not match the Avro schema, or has none, falls back to auto.
    """
    if data is None:
        return Payload("null", "", 0)
    if not data:
        return Payload("empty", "", 0)
    if form == "avro":
        return _avro(data, schema, limit)
    cut = data[:limit]
    is_cut = len(cut) < len(data)
    if form in ("auto", "json") and not is_cut and (decoded := _json(data, limit, anything=form == "json")) is not None:
        return Payload("json", decoded[:limit], len(data), len(decoded) > limit)
    if form != "hex" and (text := _text(cut, is_cut, strict=form == "auto")) is not None:
        return Payload("text", text, len(data), is_cut)
    return Payload("hex", _hex(cut), len(data), is_cut)


def _avro(data: bytes, schema: AvroSchema | None, limit: int) -> Payload:
    if schema is None:
        return payload(data, limit=limit)
    try:
        text = _indented(decode(schema, data), limit)
    except AvroError as problem:
        return replace(payload(data, limit=limit), problem=f"not an Avro value of this schema: {problem}")
    return Payload("avro", text[:limit], len(data), len(text) > limit)


def _json(data: bytes, limit: int, *, anything: bool) -> str | None:
    """Return indented JSON, little more than `limit` characters of it; None if it is not JSON, or too deep."""
    if not anything and data[:1] not in b"{[":
        return None
    try:
        # parsing changes digits and repeated keys; the page shows the meaning, and text shows the original
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if _is_deep(value):
        return None
    return (
        _indented(value, limit).encode("utf-8", "backslashreplace").decode()
    )  # half a surrogate pair is valid in JSON, but not in UTF-8


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for each in level
            if isinstance(each, (dict, list))
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)


def _indented(value: Any, limit: int) -> str:
    """Return the value as JSON; only the beginning if it is too long."""
    parts, size = [], 0
    for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
        parts.append(part)
        size += len(part)
        if size > limit:
            break
    return "".join(parts)


def _text(data: bytes, is_cut: bool, *, strict: bool) -> str | None:
    for end in range(len(data), max(len(data) - 4, 0), -1):  # the cut may split a character
        try:
            text = data[:end].decode("utf-8")
        except UnicodeDecodeError:
            if not is_cut:
                return None
            continue
        if strict and not all(each.isprintable() or each in "\t\r\n" for each in text):
            return None
        return "".join(each if each.isprintable() or each in "\t\r\n" else "�" for each in text)
    return None


def _hex(data: bytes) -> str:
    """Return rows of sixteen bytes, with the printable ones as text beside them."""
    rows = []
    for start in range(0, len(data), _HEX_ROW):
        row = data[start : start + _HEX_ROW]
        printed = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row)
        rows.append(f"{start:08x}  {row.hex(' '):<{_HEX_ROW * 3 - 1}}  {printed}")
    return "\n".join(rows)
