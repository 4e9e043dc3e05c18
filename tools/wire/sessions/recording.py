"""The file of a session: one JSON object a line (docs/reference/wire.md); frames in base64, without their size.

Lines are in the order in which the proxy saw the frames. An incomplete last line is ignored.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, BinaryIO

from tools.data.java_text import JsonValue
from tools.errors import OfflineError

VERSION = 1
#: A line holds a frame of at most 256 MiB; longer lines are rejected.
MAX_LINE_BYTES = 1 << 29


class RecordingUnreadable(OfflineError):
    """The file is not a recording, or a line of it is invalid."""


class Kind(Enum):
    """The kind of an event."""

    OPEN = "open"
    REQUEST = "request"
    ANSWER = "answer"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """An event on one connection.

    `at_s`: seconds since the recording began. `node`: the broker of an OPEN connection, None for a bootstrap server.
    `by` (CLOSE only): who closed the connection: "client", "broker" or "proxy", which was stopped or could not parse a
    frame. `api`, `version`: for people who read the file; a replay does not use them.
    """

    kind: Kind
    connection: int
    at_s: float
    frame: bytes = b""
    node: int | None = None
    by: str = ""
    api: str = ""
    version: int = -1


def first_line(started: str, bootstrap: str) -> bytes:
    """Return the first line of the file."""
    return _line({"type": "recording", "version": VERSION, "started": started, "bootstrap": bootstrap})


def common_fields(event: SessionEvent) -> dict[str, JsonValue]:
    """Return the fields that an event has in every form; an OPEN or CLOSE has no others."""
    fields: dict[str, JsonValue] = {
        "type": event.kind.value,
        "connection": event.connection,
        "at": round(event.at_s, 6),
    }
    if event.kind is Kind.OPEN:
        fields["node"] = event.node
    elif event.kind is Kind.CLOSE:
        fields["by"] = event.by
    return fields


def line(event: SessionEvent) -> bytes:
    """Return the line of an event in the file."""
    fields = common_fields(event)
    if event.kind not in (Kind.OPEN, Kind.CLOSE):
        fields |= {"api": event.api, "version": event.version}
        fields["frame"] = base64.b64encode(event.frame).decode()
    return _line(fields)


def read(file: BinaryIO) -> Iterator[SessionEvent]:
    """Yield all events of a file, one at a time in memory. Raises RecordingUnreadable."""
    head = _object(file.readline(MAX_LINE_BYTES), 1)
    if head.get("type") != "recording":
        raise RecordingUnreadable("it does not begin like a recording")
    if head.get("version") != VERSION:
        raise RecordingUnreadable(f"its version is {head.get('version')}, but only {VERSION} is supported")
    number = 1
    while text := file.readline(MAX_LINE_BYTES):
        number += 1
        if not text.endswith(b"\n"):
            if len(text) == MAX_LINE_BYTES:
                raise RecordingUnreadable(f"line {number} is too long")
            return
        yield _event(_object(text, number), number)


def _event(fields: dict[str, Any], number: int) -> SessionEvent:
    try:
        return SessionEvent(
            Kind(fields["type"]),
            int(fields["connection"]),
            float(fields["at"]),
            base64.b64decode(fields.get("frame", ""), validate=True),
            None if fields.get("node") is None else int(fields["node"]),
            str(fields.get("by", "")),
            str(fields.get("api", "")),
            int(fields.get("version", -1)),
        )
    except (KeyError, TypeError, ValueError, OverflowError, binascii.Error):
        raise RecordingUnreadable(f"line {number} has unknown content") from None


def _object(text: bytes, number: int) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise RecordingUnreadable(f"line {number} is not a JSON object")
    return fields


def _line(fields: Mapping[str, JsonValue]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"
