"""Format a dump as JSON, one object a line: `type`, then the fields that are set, in camel case.

Types are file, note, problem, batch, record, offsetEntry, timeEntry, producer and abortedTransaction. Text keys and
payloads are strings, other bytes are {"base64": ...}; those that a decoder has read are objects.
"""

from __future__ import annotations

import base64
import json

from tools.data.dump.events import (
    AbortedTransactionEntry,
    Batch,
    Control,
    Event,
    FileStart,
    LoggedRecord,
    Note,
    OffsetEntry,
    Producer,
    TimeEntry,
)
from tools.data.java_text import JsonValue

_TYPES: dict[type[Event], str] = {
    FileStart: "file",
    Note: "note",
    Batch: "batch",
    LoggedRecord: "record",
    OffsetEntry: "offsetEntry",
    TimeEntry: "timeEntry",
    Producer: "producer",
    AbortedTransactionEntry: "abortedTransaction",
}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return "".join((first, *map(str.capitalize, rest)))


#: (field, name in JSON) by type; `with_metadata` is an option, not part of a record.
_FIELDS = {
    kind: [(name, _camel(name)) for name in kind.__match_args__ if name not in ("with_metadata", "problem")]
    for kind in _TYPES
}


def line(event: Event) -> str:
    """Return the line for a value, without its line end."""
    kind = type(event)
    name = "problem" if isinstance(event, Note) and event.problem else _TYPES[kind]
    found: dict[str, JsonValue] = {"type": name}
    for field, json_name in _FIELDS[kind]:
        value = getattr(event, field)
        if value is not None:
            found[json_name] = _value(value)
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _value(value: object) -> JsonValue:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Control):
        return {"name": value.name.rstrip(":"), "value": value.value}
    assert value is None or isinstance(value, bool | int | float | str | list | dict)
    return value
