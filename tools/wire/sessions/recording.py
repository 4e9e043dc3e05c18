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
class Happening:
    """An event on one connection.

    `at_s`: seconds since the recording began. `node`: the broker of an OPEN connection, None for a bootstrap server.
    `by`: who closed a connection, "client", "broker" or "proxy" (which was stopped, or could not parse it); of CLOSE.
    `api`, `version`: for readers of the file.
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


def common_fields(happening: Happening) -> dict[str, JsonValue]:
    """Return the fields that an event has in every form; an OPEN or CLOSE has no others."""
    told: dict[str, JsonValue] = {
        "type": happening.kind.value,
        "connection": happening.connection,
        "at": round(happening.at_s, 6),
    }
    if happening.kind is Kind.OPEN:
        told["node"] = happening.node
    elif happening.kind is Kind.CLOSE:
        told["by"] = happening.by
    return told


def line(happening: Happening) -> bytes:
    """Return the line of an event in the file."""
    told = common_fields(happening)
    if happening.kind not in (Kind.OPEN, Kind.CLOSE):
        told |= {"api": happening.api, "version": happening.version}
        told["frame"] = base64.b64encode(happening.frame).decode()
    return _line(told)


def read(file: BinaryIO) -> Iterator[Happening]:
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
        yield _happening(_object(text, number), number)


def _happening(told: dict[str, Any], number: int) -> Happening:
    try:
        return Happening(
            Kind(told["type"]),
            int(told["connection"]),
            float(told["at"]),
            base64.b64decode(told.get("frame", ""), validate=True),
            None if told.get("node") is None else int(told["node"]),
            str(told.get("by", "")),
            str(told.get("api", "")),
            int(told.get("version", -1)),
        )
    except (KeyError, TypeError, ValueError, OverflowError, binascii.Error):
        raise RecordingUnreadable(f"line {number} has unknown content") from None


def _object(text: bytes, number: int) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise RecordingUnreadable(f"line {number} is not a JSON object")
    return told


def _line(told: Mapping[str, JsonValue]) -> bytes:
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"
