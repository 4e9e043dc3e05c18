"""Frames between a reader process and its caller: kind (1 byte), length (uint32, big-endian), bytes.

The kinds of frames and their order: docs/decisions/record-readers.md
"""

from __future__ import annotations

import json
import struct
from typing import Any, Protocol

REQUEST, BATCH, ANSWER, ERROR = b"Q", b"B", b"A", b"E"

_HEAD = struct.Struct(">cI")


class Readable(Protocol):
    """A stream that returns as many bytes as requested, and fewer only at its end."""

    def read(self, size: int, /) -> bytes: ...


class Writable(Protocol):
    """A stream that writes all bytes of a call."""

    def write(self, data: Any, /) -> object: ...

    def flush(self) -> None: ...


class CutOff(EOFError):
    """The stream ended within a frame, or before the last frame of a request."""


def write_frame(stream: Writable, kind: bytes, payload: Any) -> None:
    """Send one frame; `payload` is any object with a buffer. Raises OSError when the other side has closed the pipe."""
    view = memoryview(payload).cast("B")
    stream.write(_HEAD.pack(kind, len(view)))
    stream.write(view)
    stream.flush()


def write_json(stream: Writable, kind: bytes, value: object) -> None:
    """Send one frame of JSON."""
    write_frame(stream, kind, json.dumps(value).encode())


def read_frame(stream: Readable) -> tuple[bytes, bytes] | None:
    """Return kind and payload of the next frame; None at the end of the stream. Errors: CutOff."""
    head = stream.read(_HEAD.size)
    if not head:
        return None
    if len(head) == _HEAD.size:
        kind, length = _HEAD.unpack(head)
        payload = stream.read(length)
        if len(payload) == length:
            return kind, payload
    raise CutOff("the stream ends within a frame")
