"""Frames between a reader's process and the one who asks it: kind (1 byte), length (uint32, big-endian), bytes.

Which kinds there are, and in which order they come: docs/decisions/record-readers.md
"""

from __future__ import annotations

import json
import struct
from typing import Any, Protocol

REQUEST, BATCH, ANSWER, ERROR = b"Q", b"B", b"A", b"E"

_HEAD = struct.Struct(">cI")


class Readable(Protocol):
    """A stream that gives as many bytes as it is asked for, fewer only at its end."""

    def read(self, size: int, /) -> bytes: ...


class Writable(Protocol):
    """A stream that takes all bytes that it is given."""

    def write(self, data: Any, /) -> object: ...

    def flush(self) -> None: ...


class CutOff(EOFError):
    """A stream that ends within a frame, or before all that belongs to a request has come."""


def write_frame(stream: Writable, kind: bytes, payload: Any) -> None:
    """Send one frame; `payload` is anything with a buffer. OSError where nobody reads any more."""
    view = memoryview(payload).cast("B")
    stream.write(_HEAD.pack(kind, len(view)))
    stream.write(view)
    stream.flush()


def write_json(stream: Writable, kind: bytes, value: object) -> None:
    """Send one frame of JSON."""
    write_frame(stream, kind, json.dumps(value).encode())


def read_frame(stream: Readable) -> tuple[bytes, bytes] | None:
    """The next frame's kind and payload; None at the end of the stream. Errors: CutOff."""
    head = stream.read(_HEAD.size)
    if not head:
        return None
    if len(head) == _HEAD.size:
        kind, length = _HEAD.unpack(head)
        payload = stream.read(length)
        if len(payload) == length:
            return kind, payload
    raise CutOff("the stream ends within a frame")
